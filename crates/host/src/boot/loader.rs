//! How the boot line gets from where it is configured to the kernel: which boot loader, by its
//! files.

use quietcore_facts::Facts;
use quietcore_facts::bootfiles::Files;
use quietcore_sys::Host;

/// How the boot line gets from where it is configured to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loader {
    /// Debian and its kin.
    UpdateGrub,
    /// GRUB's menu is made by this command: Red Hat, SUSE.
    Mkconfig(String),
    /// Entries after the Boot Loader Specification, kept by grubby: Red Hat, Fedora.
    Grubby,
    /// Entries after the Boot Loader Specification without GRUB: systemd-boot.
    KernelInstall,
    /// No file of a boot loader was found.
    Unknown,
}

impl Loader {
    pub(crate) fn of(facts: &Facts) -> Self {
        facts.bootfiles().files.value().map_or(Self::Unknown, Self::by)
    }

    /// As it is now.
    pub(crate) fn now(host: &Host) -> Self {
        host.boot_lines().map_or(Self::Unknown, |lines| Self::by(&Files::parse(&lines)))
    }

    fn by(files: &Files) -> Self {
        let known = files.entries.iter().map(|entry| entry.file.as_str());
        let all: Vec<&str> = known.chain(files.unread.iter().map(String::as_str)).collect();
        Self::by_files(files.configured.is_some(), &all)
    }

    /// `grub`: whether /etc/default/grub is there.
    pub(crate) fn by_files(grub: bool, files: &[&str]) -> Self {
        let menu = files.iter().find(|file| file.ends_with("/grub.cfg"));
        let entries = files.iter().any(|file| file.ends_with(".conf"));
        match (menu, entries) {
            (Some(&"/boot/grub/grub.cfg"), false) => Self::UpdateGrub,
            (Some(menu), false) => Self::Mkconfig((*menu).to_owned()),
            (Some(_), true) => Self::Grubby,
            (None, true) if grub => Self::Grubby,
            (None, true) => Self::KernelInstall,
            (None, false) if grub => Self::UpdateGrub,
            (None, false) => Self::Unknown,
        }
    }
}
