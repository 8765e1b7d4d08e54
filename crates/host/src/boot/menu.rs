//! GRUB's menu as a text: its sections, its entries, their lines. Pure.

/// An entry that boots Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its place, as GRUB counts, within the text: `0`, `1>2`.
    pub place: String,
    /// The kernel, as GRUB sees it.
    pub kernel: String,
    /// Its parameters.
    pub line: String,
}

impl Entry {
    /// Whether it is for repair only.
    pub fn is_recovery(&self) -> bool {
        self.line.split_whitespace().any(|w| matches!(w, "single" | "recovery" | "rescue"))
    }

    /// Whether it boots the kernel of `BOOT_IMAGE=`.
    pub fn boots(&self, image: &str) -> bool {
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        !name(image).is_empty() && name(&self.kernel) == name(image)
    }
}

/// What a script has put into the menu, its two marks and the empty line before them included.
pub(super) fn section<'a>(menu: &'a str, script: &str) -> Option<&'a str> {
    let begin = menu.find(&format!("\n### BEGIN {script} ###\n"))?;
    let mark = format!("\n### END {script} ###\n");
    let end = begin + menu[begin..].find(&mark)? + mark.len();
    let begin = if menu[..begin].ends_with('\n') { begin } else { begin + 1 };
    Some(&menu[begin..end])
}

/// The menu without a script's section.
pub(super) fn without(menu: &str, script: &str) -> String {
    match section(menu, script) {
        Some(section) => menu.replacen(section, "", 1),
        None => menu.to_owned(),
    }
}

/// The menu with a script's section behind all others, which stay as they are to the byte.
pub(super) fn with(menu: &str, script: &str, section: &str) -> String {
    without(menu, script) + section
}

/// The entries of a part of the menu, in its order; those of submenus, too.
pub(super) fn entries(part: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    // Of each level that is open: how many entries it had so far.
    let mut counts = vec![0_usize];
    for line in part.lines().map(str::trim) {
        match line.split_whitespace().next() {
            Some("menuentry" | "submenu") if line.ends_with('{') => counts.push(0),
            Some("}") if counts.len() > 1 => {
                counts.pop();
                counts.last_mut().into_iter().for_each(|count| *count += 1);
            }
            Some("linux" | "linux16" | "linuxefi") if counts.len() > 1 => {
                let mut words = line.splitn(3, char::is_whitespace);
                let (_, kernel, line) = (words.next(), words.next(), words.next());
                let above = &counts[..counts.len() - 1];
                let place: Vec<String> = above.iter().map(usize::to_string).collect();
                found.push(Entry {
                    place: place.join(">"),
                    kernel: kernel.unwrap_or_default().to_owned(),
                    line: line.unwrap_or_default().trim().to_owned(),
                });
            }
            _ => {}
        }
    }
    found
}

/// The first line in which two menus differ, apart from what `plain` makes of a kernel's
/// parameters and from titles: those are in the language of whoever made the menu.
pub(super) fn difference(old: &str, new: &str, plain: impl Fn(&str) -> String) -> Option<String> {
    let lines = |menu: &str| -> Vec<String> {
        let told = |line: &&str| {
            let first = line.split_whitespace().next();
            !matches!(first, None | Some("menuentry" | "submenu" | "echo"))
                && !line.starts_with('#')
        };
        menu.lines()
            .map(str::trim)
            .filter(told)
            .map(|line| match line.split_whitespace().next() {
                Some("linux" | "linux16" | "linuxefi") => plain(line),
                _ => line.to_owned(),
            })
            .collect()
    };
    let (old, new) = (lines(old), lines(new));
    let length = old.len().max(new.len());
    let differ = (0..length).find(|&at| old.get(at) != new.get(at))?;
    new.get(differ).or_else(|| old.get(differ)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MENU: &str = "#\n# DO NOT EDIT\n#\n\n### BEGIN /etc/grub.d/10_linux ###\nfunction gfxmode {\n\tset x\n}\nmenuentry 'Debian' --id 'a' {\n\tif [ x = y ]; then insmod z; fi\n\tlinux\t/vmlinuz-2 root=/dev/a ro quiet\n}\nsubmenu 'More' --id 'b' {\n\tmenuentry 'two' {\n\t\tlinux\t/vmlinuz-2 root=/dev/a ro quiet\n\t}\n\tmenuentry 'two, recovery' {\n\t\tlinux /vmlinuz-2 root=/dev/a ro single\n\t}\n\tmenuentry 'one' {\n\t\tlinux\t/boot/vmlinuz-1 ro\n\t}\n}\n\n### END /etc/grub.d/10_linux ###\n\n### BEGIN /etc/grub.d/41_custom ###\n### END /etc/grub.d/41_custom ###\n";
    const OURS: &str = "\n### BEGIN /etc/grub.d/42_quietcore ###\nsubmenu 'q' {\n}\n### END /etc/grub.d/42_quietcore ###\n";

    #[test]
    fn entries_are_found_where_grub_counts_them() {
        let found = entries(section(MENU, "/etc/grub.d/10_linux").unwrap());
        let places: Vec<&str> = found.iter().map(|entry| entry.place.as_str()).collect();
        assert_eq!(places, ["0", "1>0", "1>1", "1>2"]);
        assert_eq!(found[0].line, "root=/dev/a ro quiet");
        assert!(found[2].is_recovery() && !found[0].is_recovery());
        assert!(found[3].boots("(hd0,1)/vmlinuz-1") && !found[3].boots("/vmlinuz-2"));
        assert!(!found[3].boots(""));
    }

    #[test]
    fn a_section_goes_in_and_out_and_every_other_byte_stays() {
        let script = "/etc/grub.d/42_quietcore";
        let with_ours = with(MENU, script, OURS);
        assert_eq!(section(&with_ours, script), Some(OURS));
        assert_eq!(without(&with_ours, script), MENU);
        assert_eq!(with(&with_ours, script, OURS), with_ours, "it is there once");
        assert_eq!(section(MENU, script), None);
        assert_eq!(without(MENU, script), MENU);
        assert_eq!(section("### BEGIN x ###\n", "x"), None);
    }

    #[test]
    fn titles_may_differ_but_kernels_may_not() {
        let plain = |line: &str| line.replace(" isolcpus=2", "");
        let german = MENU.replace("'More'", "'Mehr'").replace("ro quiet", "ro isolcpus=2 quiet");
        assert_eq!(difference(MENU, &german, plain), None);
        let other = MENU.replace("vmlinuz-1", "vmlinuz-0");
        assert_eq!(difference(MENU, &other, plain).unwrap(), "linux\t/boot/vmlinuz-0 ro");
        let more = format!("{MENU}set timeout=1\n");
        assert_eq!(difference(MENU, &more, plain).unwrap(), "set timeout=1");
        assert!(difference(&more, MENU, plain).is_some());
    }

    #[test]
    fn garbage_has_no_entries() {
        for text in ["", "}", "}\n}\n{", "linux", "menuentry {\nlinux\n", "menuentry {\nlinux"] {
            let _ = (entries(text), without(text, "x"), section(text, ""));
        }
    }
}
