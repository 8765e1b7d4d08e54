//! The boot loader's files, cut down to the lines that make a kernel command line: the rest of
//! grub.cfg may hold password hashes and is nobody's business.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::parameters::{Quoting, without_values};
use super::{Host, HostError, Trouble, live};

/// GRUB's menu, by distribution.
const MENUS: [&str; 2] = ["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"];
/// GRUB's variables that entries refer to.
const VARIABLES: [&str; 2] = ["/boot/grub/grubenv", "/boot/grub2/grubenv"];
/// Folders of entries after the Boot Loader Specification.
const ENTRIES: [&str; 3] =
    ["/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries"];

/// The lines of the boot loader's files that make a kernel command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootLines {
    /// Assignments to `GRUB_CMDLINE_…` in /etc/default/grub and /etc/default/grub.d, in the order
    /// GRUB reads them.
    pub defaults: Vec<BootLine>,
    /// Menu entries: `linux KERNEL PARAMETERS`.
    pub entries: Vec<BootLine>,
    /// Variables of GRUB that entries refer to: `kernelopts=…`.
    pub variables: Vec<BootLine>,
    /// Files that are there and could not be read.
    pub unread: Vec<String>,
}

/// A line and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootLine {
    /// The file.
    pub file: String,
    /// The line, continued ones joined.
    pub text: String,
}

impl Host {
    /// The lines of the boot loader's files that make a kernel command line.
    ///
    /// # Errors
    /// Missing where there are none: a guest that is booted from outside, a container.
    pub fn boot_lines(&self) -> Result<BootLines, HostError> {
        self.answer("boot files".to_owned(), read_lines)
    }
}

fn read_lines(root: &Path) -> Result<BootLines, Trouble> {
    let mut found = BootLines::default();
    let mut defaults = vec!["/etc/default/grub".to_owned()];
    defaults.extend(files_in(root, "/etc/default/grub.d", ".cfg"));
    for file in defaults {
        let text = text_of(root, &file, &mut found.unread);
        let kept = assignments(&text).iter().map(|line| assigned(line)).collect();
        found.defaults.extend(lines(&file, kept));
    }
    for file in MENUS.iter().map(|file| (*file).to_owned()).chain(efi_menus(root)) {
        let text = text_of(root, &file, &mut found.unread);
        found.entries.extend(lines(&file, menu_lines(&text).iter().map(|l| entry(l)).collect()));
    }
    for folder in ENTRIES {
        for file in files_in(root, folder, ".conf") {
            let text = text_of(root, &file, &mut found.unread);
            found
                .entries
                .extend(lines(&file, entry_line(&text).iter().map(|l| entry(l)).collect()));
        }
    }
    for file in VARIABLES {
        let text = text_of(root, file, &mut found.unread);
        let kept = text
            .lines()
            .filter(|line| line.starts_with("kernelopts=") || line.starts_with("tuned_params="));
        found.variables.extend(lines(file, kept.map(assigned).collect()));
    }
    match found == BootLines::default() {
        true => Err(Trouble::Missing),
        false => Ok(found),
    }
}

fn text_of(root: &Path, file: &str, unread: &mut Vec<String>) -> String {
    match live::read(root, file) {
        Ok(text) => text,
        Err(Trouble::Missing) => String::new(),
        Err(_) => {
            unread.push(file.to_owned());
            String::new()
        }
    }
}

fn files_in(root: &Path, folder: &str, ending: &str) -> Vec<String> {
    let names = live::list(root, folder).unwrap_or_default();
    let named = names.iter().filter(|name| name.ends_with(ending));
    named.map(|name| format!("{folder}/{name}")).collect()
}

/// Older Red Hat systems keep the menu on the EFI partition.
fn efi_menus(root: &Path) -> Vec<String> {
    let vendors = live::list(root, "/boot/efi/EFI").unwrap_or_default();
    vendors.iter().map(|vendor| format!("/boot/efi/EFI/{vendor}/grub.cfg")).collect()
}

fn lines(file: &str, texts: Vec<String>) -> Vec<BootLine> {
    texts.into_iter().map(|text| BootLine { file: file.to_owned(), text }).collect()
}

/// Without the values of parameters that no check reads.
fn entry(line: &str) -> String {
    without_values(line, Quoting::Shell)
}

/// As [`entry`], of `NAME=PARAMETERS`.
fn assigned(line: &str) -> String {
    match line.split_once('=') {
        Some((name, value)) => format!("{name}={}", without_values(value, Quoting::Assignment)),
        None => String::new(),
    }
}

/// Assignments to `GRUB_CMDLINE_…`; a value may go on over several lines, by a backslash or
/// within its quotes.
fn assignments(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text.lines();
    while let Some(line) = rest.next() {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        if !line.starts_with("GRUB_CMDLINE_LINUX") {
            continue;
        }
        let mut whole = line.to_owned();
        while whole.ends_with('\\') || whole.matches('"').count() % 2 == 1 {
            if whole.ends_with('\\') {
                whole.pop();
            }
            let Some(next) = rest.next() else { break };
            if !whole.ends_with(' ') {
                whole.push(' ');
            }
            whole.push_str(next.trim_start());
        }
        found.push(whole);
    }
    found
}

fn menu_lines(text: &str) -> Vec<String> {
    let is_kernel = |line: &&str| {
        matches!(line.split_whitespace().next(), Some("linux" | "linux16" | "linuxefi"))
    };
    text.lines().map(str::trim).filter(is_kernel).map(str::to_owned).collect()
}

/// An entry's `linux` and `options` lines as one line of the form that GRUB's menu has.
fn entry_line(text: &str) -> Option<String> {
    let values = |key: &str| {
        let pairs = text.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
        let mine = pairs.filter(|(name, _)| *name == key);
        mine.map(|(_, value)| value.trim().to_owned()).collect::<Vec<_>>()
    };
    let kernel = values("linux").into_iter().next()?;
    Some(format!("linux {kernel} {}", values("options").join(" ")).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_lines_that_make_a_command_line_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "etc/default/grub",
            "GRUB_TIMEOUT=5\n#GRUB_CMDLINE_LINUX=\"x\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\n  isolcpus=2\"\n",
        );
        put("proc/version", "");
        put("etc/default/grub.d/50.cfg", "GRUB_CMDLINE_LINUX=\"a=secret\nb\"\n");
        put(
            "boot/grub/grub.cfg",
            "password_pbkdf2 root grub.pbkdf2.secret\n\tlinux\t/vmlinuz root=/dev/sda1 pass=secret ro quiet\n",
        );
        put(
            "boot/loader/entries/x.conf",
            "title X\nlinux /vmlinuz-6\noptions a=secret b\noptions $kernelopts\n",
        );
        put("boot/grub2/grubenv", "# GRUB\nkernelopts=c=secret d\nsaved_entry=x\n");
        let found = Host::from_path(root.path()).unwrap().boot_lines().unwrap();
        let texts = |lines: &[BootLine]| lines.iter().map(|l| l.text.clone()).collect::<Vec<_>>();
        assert_eq!(
            texts(&found.defaults),
            ["GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=2\"", "GRUB_CMDLINE_LINUX=\"a b\""]
        );
        assert_eq!(
            texts(&found.entries),
            ["linux\t/vmlinuz root pass ro quiet", "linux /vmlinuz-6 a b $kernelopts"]
        );
        assert_eq!(texts(&found.variables), ["kernelopts=c d"]);
        assert!(found.unread.is_empty());
    }

    #[test]
    fn a_value_whose_quote_never_ends_does_not_hang() {
        assert_eq!(assignments("GRUB_CMDLINE_LINUX=\"a\nb"), ["GRUB_CMDLINE_LINUX=\"a b"]);
        assert_eq!(assignments("GRUB_CMDLINE_LINUX=a\\"), ["GRUB_CMDLINE_LINUX=a"]);
        assert!(entry_line("garbage\n\nlinux\n").is_none());
    }
}
