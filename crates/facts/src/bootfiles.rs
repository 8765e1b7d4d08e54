//! What the boot loader's files say the next boot will be.

use quietcore_measure::Reading;
use quietcore_sys::host::{BootLine, BootLines, reading};

use crate::Facts;
use crate::boot::{Token, tokens};

/// The boot loader's files.
#[derive(Clone, Debug)]
pub struct Bootfiles {
    /// What they say, or why they could not be read.
    pub files: Reading<Files>,
}

/// What the boot loader's files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// What /etc/default/grub asks for; `None` where there is no such file or it says nothing.
    pub configured: Option<Configured>,
    /// The menu's entries.
    pub entries: Vec<Entry>,
    /// Files that are there and could not be read.
    pub unread: Vec<String>,
}

/// What /etc/default/grub and /etc/default/grub.d ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// The last file that adds something.
    pub file: String,
    /// The parameters for an ordinary boot.
    pub tokens: Vec<Token>,
    /// Those of them that stand behind all others (`GRUB_CMDLINE_LINUX_DEFAULT`), as a text.
    pub ordinary: String,
    /// Whether every value could be worked out without running a shell.
    pub certain: bool,
}

/// An entry of the boot menu.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands.
    pub file: String,
    /// The kernel's path, as the loader sees it.
    pub kernel: String,
    /// The parameters.
    pub tokens: Vec<Token>,
}

impl Bootfiles {
    pub(crate) fn read(facts: &Facts) -> Self {
        Self { files: reading(facts.host().boot_lines()).map(|lines| Files::parse(&lines)) }
    }
}

impl Files {
    /// Takes the lines apart.
    pub fn parse(lines: &BootLines) -> Self {
        Self {
            configured: configured(&lines.defaults),
            entries: lines
                .entries
                .iter()
                .filter_map(|line| entry(line, &lines.variables))
                .collect(),
            unread: lines.unread.clone(),
        }
    }

    /// The entry that boots this kernel: the ordinary one, not the one for recovery. `kernel` is
    /// a path (`BOOT_IMAGE=`) or a release.
    pub fn entry(&self, kernel: &str) -> Option<&Entry> {
        let name = kernel.rsplit('/').next().unwrap_or_default();
        let is_recovery = |entry: &&Entry| {
            entry.tokens.iter().any(|t| matches!(t.name.as_str(), "single" | "recovery" | "rescue"))
        };
        let mut ordinary = self.entries.iter().filter(|e| !is_recovery(e));
        ordinary.find(|e| !name.is_empty() && (e.kernel.ends_with(name) || e.file.contains(name)))
    }
}

/// Later files may build on earlier ones: `GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX x"`.
fn configured(lines: &[BootLine]) -> Option<Configured> {
    let mut values: Vec<(String, String)> = Vec::new();
    let mut found = Configured { certain: true, ..Configured::default() };
    for line in lines {
        let Some((name, raw)) = line.text.split_once('=') else { continue };
        let (name, append) = match name.strip_suffix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let known = |wanted: &str| {
            let mut same = values.iter().filter(|(name, _)| name == wanted);
            same.next().map(|(_, value)| value.clone())
        };
        let (value, certain) = shell_value(raw, &known);
        found.certain &= certain;
        found.file.clone_from(&line.file);
        let before = if append { known(name).unwrap_or_default() } else { String::new() };
        values.retain(|(other, _)| other != name);
        values.push((name.to_owned(), before + &value));
    }
    let mut all = String::new();
    for wanted in ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"] {
        for (_, value) in values.iter().filter(|(name, _)| name == wanted) {
            all.push_str(value);
            all.push(' ');
            if wanted == "GRUB_CMDLINE_LINUX_DEFAULT" {
                found.ordinary = value.trim().to_owned();
            }
        }
    }
    found.tokens = tokens(&all);
    (!lines.is_empty()).then_some(found)
}

/// The value of a shell assignment: quotes, backslashes and `$NAME`; anything else a shell could
/// compute makes it uncertain.
fn shell_value(raw: &str, known: &dyn Fn(&str) -> Option<String>) -> (String, bool) {
    let mut value = String::new();
    let mut certain = true;
    let mut quote = None;
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() || c == '#' || c == ';' => break,
            ('\\', None | Some('"')) => value.extend(rest.next()),
            ('`', None | Some('"')) => certain = false,
            ('$', None | Some('"')) => {
                let braces = rest.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                certain &= !name.is_empty() && (!braces || rest.next_if_eq(&'}').is_some());
                if name.starts_with("GRUB_CMDLINE_LINUX") {
                    value.push_str(&known(&name).unwrap_or_default());
                } else {
                    certain = false;
                }
            }
            (c, _) => value.push(c),
        }
    }
    (value, certain)
}

/// `linux /vmlinuz-6.1 root=/dev/sda1 ro quiet $vt_handoff`: GRUB's variables are put in where
/// they are known; the others are for its own use.
fn entry(line: &BootLine, variables: &[BootLine]) -> Option<Entry> {
    let rest = line.text.split_once(char::is_whitespace)?.1.trim_start();
    let (kernel, parameters) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let mut text = parameters.to_owned();
    for variable in variables {
        if let Some((name, value)) = variable.text.split_once('=') {
            text = text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        }
    }
    let tokens = tokens(&text).into_iter().filter(|t| !t.name.starts_with('$')).collect();
    Some(Entry { file: line.file.clone(), kernel: kernel.to_owned(), tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<BootLine> {
        let line = |text: &&str| BootLine { file: "f".to_owned(), text: (*text).to_owned() };
        texts.iter().map(line).collect()
    }

    fn words(tokens: &[Token]) -> Vec<String> {
        tokens.iter().map(Token::text).collect()
    }

    #[test]
    fn assignments_build_on_earlier_ones() {
        let found = configured(&lines(&[
            "GRUB_CMDLINE_LINUX_DEFAULT='quiet splash' # as installed",
            "GRUB_CMDLINE_LINUX=\"isolcpus=2\"",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT} crashkernel=1G\"",
            "GRUB_CMDLINE_LINUX+=\" nohz_full=2\"",
        ]))
        .unwrap();
        assert_eq!(
            words(&found.tokens),
            ["isolcpus=2", "nohz_full=2", "quiet", "splash", "crashkernel=1G"]
        );
        assert_eq!(found.ordinary, "quiet splash crashkernel=1G");
        assert!(found.certain);
        assert_eq!(configured(&[]), None);
    }

    #[test]
    fn what_only_a_shell_can_work_out_is_uncertain() {
        for raw in ["\"$(nproc)\"", "\"`x`\"", "\"$OTHER\"", "\"${GRUB_CMDLINE_LINUX:-a}\"", "$"] {
            let line = format!("GRUB_CMDLINE_LINUX={raw}");
            assert!(!configured(&lines(&[&line])).unwrap().certain, "{raw}");
        }
        for garbage in ["", "=", "GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX=\"", "+=x", "\\"] {
            let _ = configured(&lines(&[garbage]));
        }
    }

    #[test]
    fn the_ordinary_entry_of_the_running_kernel_is_found() {
        let files = Files::parse(&BootLines {
            entries: lines(&[
                "linux /vmlinuz-6.0 root=/dev/sda1 ro",
                "linux\t/boot/vmlinuz-6.1 root=/dev/sda1 ro single",
                "linux\t/boot/vmlinuz-6.1 root=/dev/sda1 $kernelopts $vt_handoff",
            ]),
            variables: lines(&["kernelopts=quiet isolcpus=2"]),
            ..BootLines::default()
        });
        let entry = files.entry("(hd0,gpt2)/boot/vmlinuz-6.1").unwrap();
        assert_eq!(words(&entry.tokens), ["root=/dev/sda1", "quiet", "isolcpus=2"]);
        assert_eq!(files.entry("6.0").unwrap().kernel, "/vmlinuz-6.0");
        assert!(files.entry("").is_none() && files.entry("5.4").is_none());
    }
}
