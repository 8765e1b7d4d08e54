//! The boot entry that is taken once: what makes a new boot line safe to try.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Loader, Trouble};
use crate::lease::value::Value;

/// Of the EFI variable: attributes in four bytes, then the name in UTF-16.
const ONE_SHOT: &str =
    "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

pub(super) fn read(loader: &Loader) -> Result<Value, Trouble> {
    match loader {
        Loader::Grub { environment } => {
            let block = std::fs::read_to_string(environment)?;
            Ok(entry(&block).map_or(Value::Absent, Value::text))
        }
        Loader::SystemdBoot => match std::fs::read(ONE_SHOT) {
            Ok(bytes) => Ok(Value::text(of_utf16(bytes.get(4..).unwrap_or_default()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Value::Absent),
            Err(error) => Err(error.into()),
        },
    }
}

/// GRUB clears the entry by setting it empty: that is another block than one without the line.
fn entry(block: &str) -> Option<&str> {
    block.lines().find_map(|line| line.strip_prefix("next_entry="))
}

fn of_utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&units)
}

/// By the loader's own programs: both formats are theirs.
pub(super) fn write(loader: &Loader, value: &Value) -> Result<(), Trouble> {
    let entry = value.as_text();
    match (loader, entry) {
        (Loader::Grub { environment }, entry) => {
            match entry {
                Some(entry) => grub_editenv(&[environment, "set", &format!("next_entry={entry}")]),
                None => grub_editenv(&[environment, "unset", "next_entry"]),
            }?;
            super::file::sync_folder(Path::new(environment))
        }
        (Loader::SystemdBoot, entry) => {
            run("bootctl", &["set-oneshot", entry.unwrap_or_default()]).map(drop)
        }
    }
}

/// Debian calls it grub-editenv, Red Hat and SUSE grub2-editenv.
fn grub_editenv(args: &[&str]) -> Result<(), Trouble> {
    match run("grub-editenv", args) {
        Err(Trouble::Missing) => run("grub2-editenv", args),
        other => other,
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), Trouble> {
    let mut command = Command::new(program);
    let output = dies_with_us(command.args(args)).stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(Trouble::Other(format!("{program}: {}", words.trim())))
        }
    }
}

/// Has the kernel end a program when the thread that started it ends: no orphan goes on changing
/// the host after its lease was taken back.
pub fn dies_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only prctl(2) is called, a plain system call.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_grub_has_cleared_is_empty_and_one_that_was_never_set_is_none() {
        let block = "# GRUB Environment Block\nsaved_entry=0\nnext_entry=a>b\n####";
        assert_eq!(entry(block), Some("a>b"));
        assert_eq!(entry(&block.replace("a>b", "")), Some(""));
        assert_eq!(entry("# GRUB Environment Block\n####"), None);
    }

    #[test]
    fn an_efi_string_ends_at_its_zero() {
        assert_eq!(of_utf16(&[b'a', 0, b'.', 0, 0, 0, b'x', 0]), "a.");
        assert_eq!(of_utf16(&[1]), "");
    }
}
