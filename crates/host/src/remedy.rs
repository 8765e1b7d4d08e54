//! Fixes that differ by distribution or by what a shell makes of them.

use quietcore_facts::Facts;
use quietcore_facts::memory::Swap;

use crate::boot::Loader;

/// Adds parameters to the boot line, `isolcpus=2-5 nohz_full=2-5`.
pub(crate) fn add_to_boot_line(facts: &Facts, parameters: &str) -> String {
    Loader::of(facts).add(parameters)
}

/// Changes the boot line as told, `mend the list`.
pub(crate) fn edit_boot_line(facts: &Facts, what: &str) -> String {
    Loader::of(facts).edit(what)
}

/// Makes the menu anew from what is configured.
pub(crate) fn remake_menu(facts: &Facts) -> String {
    match Loader::of(facts) {
        Loader::Mkconfig(menu) => format!("grub2-mkconfig -o {menu}, then reboot"),
        _ => "update-grub, then reboot".to_owned(),
    }
}

/// A word as a shell takes it: systemd's `a\x2db.slice` would lose its backslash.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Brings everything back from swap; where that does not fit into memory, it says what to free
/// first, for the kernel would end programs to make room.
pub(crate) fn swapoff(facts: &Facts) -> String {
    let memory = facts.memory();
    let areas: &[Swap] = memory.swaps.value().map_or(&[], Vec::as_slice);
    let used = areas.iter().fold(0, |sum: u64, area| sum.saturating_add(area.used_kib));
    swapoff_with(used, memory.info.get("MemAvailable").copied())
}

fn swapoff_with(used_kib: u64, available_kib: Option<u64>) -> String {
    match available_kib {
        Some(available) if used_kib > available => {
            let short = (used_kib - available).div_ceil(1024);
            format!("free {short} MiB first, else the OOM killer does; then swapoff -a")
        }
        None if used_kib > 0 => {
            format!("see that {} MiB are free, then swapoff -a", used_kib.div_ceil(1024))
        }
        _ => "swapoff -a".to_owned(),
    }
}

impl Loader {
    fn add(&self, parameters: &str) -> String {
        match self {
            Self::Grubby => {
                format!("grubby --update-kernel=ALL --args={}, then reboot", quoted(parameters))
            }
            Self::KernelInstall => self.edit(&format!("add {parameters}")),
            Self::UpdateGrub | Self::Mkconfig(_) => {
                self.edit(&format!("add {parameters} to GRUB_CMDLINE_LINUX"))
            }
            Self::Unknown => format!("add {parameters} to the kernel's command line, then reboot"),
        }
    }

    fn edit(&self, what: &str) -> String {
        match self {
            Self::UpdateGrub => {
                format!("{what} in /etc/default/grub, then update-grub and reboot")
            }
            Self::Mkconfig(menu) => {
                format!("{what} in /etc/default/grub, then grub2-mkconfig -o {menu} and reboot")
            }
            Self::Grubby => format!(
                "{what}: grubby --update-kernel=ALL --remove-args='OLD' --args='NEW', then reboot"
            ),
            Self::KernelInstall => format!(
                "{what} in /etc/kernel/cmdline, then kernel-install add-all (or add VERSION IMAGE) and reboot"
            ),
            Self::Unknown => format!("{what} on the kernel's command line, then reboot"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_survives_a_shell() {
        assert_eq!(quoted(r"/a/foo\x2dbar.slice"), r"'/a/foo\x2dbar.slice'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn swap_that_does_not_fit_into_memory_is_not_switched_off_at_once() {
        assert_eq!(swapoff_with(1024, Some(1024)), "swapoff -a");
        assert!(swapoff_with(3000, Some(1000)).starts_with("free 2 MiB first"));
        assert!(swapoff_with(1024, None).starts_with("see that 1 MiB"));
        assert_eq!(swapoff_with(0, None), "swapoff -a");
    }

    #[test]
    fn the_loader_is_told_by_its_files() {
        let debian = Loader::by_files(true, &["/boot/grub/grub.cfg"]);
        let suse = Loader::by_files(true, &["/boot/grub2/grub.cfg"]);
        let fedora = Loader::by_files(true, &["/boot/loader/entries/a.conf"]);
        let closed =
            Loader::by_files(true, &["/boot/grub2/grub.cfg", "/boot/loader/entries/a.conf"]);
        let systemd = Loader::by_files(false, &["/boot/loader/entries/a.conf"]);
        assert_eq!(
            debian.add("a=1"),
            "add a=1 to GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and reboot"
        );
        assert!(
            suse.edit("mend it").ends_with("grub2-mkconfig -o /boot/grub2/grub.cfg and reboot")
        );
        assert_eq!(fedora.add("a=1"), "grubby --update-kernel=ALL --args='a=1', then reboot");
        assert_eq!(closed, Loader::Grubby);
        assert!(systemd.add("a=1").contains("/etc/kernel/cmdline"));
        assert_eq!(Loader::by_files(false, &[]), Loader::Unknown);
    }
}
