//! Files as a whole: what configures the host and its next boot.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::knobs::{list, name};
use super::text::{Class, Entry, escaped};

/// Classes and their folders.
pub const CLASSES: &[(&str, &[&str])] = &[
    ("etc", &["etc"]),
    ("boot", &["boot"]),
    (
        "run",
        &[
            "run/systemd/system",
            "run/systemd/system.control",
            "run/systemd/transient",
            "run/sysctl.d",
            "run/tmpfiles.d",
            "run/modprobe.d",
            "run/udev/rules.d",
        ],
    ),
];

/// Where grub keeps what it writes while booting.
const GRUBENV: &str = "grubenv";

pub fn take(root: &Path, folders: &[&str]) -> Class {
    let mut found = BTreeMap::new();
    for folder in folders {
        let path = root.join(folder);
        if path.symlink_metadata().is_ok() {
            add(root, &path, &mut found);
        }
    }
    Class::found(found)
}

fn add(root: &Path, path: &Path, found: &mut BTreeMap<String, Entry>) {
    if path.ends_with(GRUBENV) {
        return;
    }
    let value = describe(path).unwrap_or_else(|error| format!("unreadable: {error}"));
    found.insert(name(root, path), Entry::new(value));
    if path.is_dir() && !path.is_symlink() {
        list(path).iter().for_each(|below| add(root, below, found));
    }
}

fn describe(path: &Path) -> io::Result<String> {
    let meta = path.symlink_metadata()?;
    let owner = format!("{:o} {}:{}", meta.mode(), meta.uid(), meta.gid());
    if meta.is_symlink() {
        let target = fs::read_link(path)?;
        Ok(format!("link {owner} {}", escaped(target.as_os_str().as_encoded_bytes())))
    } else if meta.is_file() {
        let bytes = fs::read(path)?;
        // Nobody wants to deceive it, and both pictures are taken by the same program.
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        Ok(format!("file {owner} {} bytes {:016x}", bytes.len(), hasher.finish()))
    } else if meta.is_dir() {
        Ok(format!("folder {owner}"))
    } else {
        Ok(format!("special {owner}"))
    }
}

/// The entry that grub boots next time only, by the file it is written in.
pub fn boot_once(root: &Path) -> Class {
    let files = ["boot/grub/grubenv", "boot/grub2/grubenv"].map(|file| root.join(file));
    let entries = files.iter().filter_map(|file| {
        let text = fs::read(file).ok()?;
        Some((name(root, file), Entry::new(next_entry(&text))))
    });
    Class::found(entries.collect())
}

fn next_entry(grubenv: &[u8]) -> String {
    let mut lines = grubenv.split(|byte| *byte == b'\n');
    lines
        .find_map(|line| line.strip_prefix(b"next_entry="))
        .filter(|value| !value.is_empty())
        .map_or_else(|| "nothing".into(), escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_boot_is_read_from_grubenv() {
        let block = b"# GRUB Environment Block\nsaved_entry=0\nnext_entry=1>2\n#####";
        assert_eq!(next_entry(block), "1>2");
        // grub empties it when it has booted it, grub-editenv unset takes the line away.
        assert_eq!(next_entry(b"next_entry=\n###"), "nothing");
        assert_eq!(next_entry(b"saved_entry=0\n###"), "nothing");
    }
}
