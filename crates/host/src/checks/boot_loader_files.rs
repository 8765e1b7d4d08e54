use quietcore_facts::Facts;
use quietcore_facts::boot::Token;
use quietcore_facts::bootfiles::Files;
use quietcore_measure::{Cause, Reading};

use crate::parameters::is_for_latency;
use crate::remedy::{add_to_boot_line, remake_menu};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "boot.loader-files",
    cause: Cause::Scheduler,
    about: "The next boot gets the latency parameters that this one has",
    why: "Three places hold the boot line: /etc/default/grub (with /etc/default/grub.d), the menu \
          that update-grub or grub2-mkconfig makes of it (grub.cfg, or entries after the Boot Loader \
          Specification), and the line that booted. A parameter that is configured but not in \
          the menu waits for that; one that is in the menu but did not boot waits for a \
          reboot; one that booted but stands in no file was typed at the menu and is lost at the \
          next boot; one that stands in the menu only is lost when the menu is made anew, as any \
          kernel update does. Only parameters that decide about latency are judged. Values that \
          only a shell can work out are not guessed at: where /etc/default/grub holds some, its \
          part stays unknown.",
    cost: Cost {
        us: 20.0,
        text: "no isolation after the next boot: 50–500 µs per task, ticks of 1–5 µs; ranked at a tenth, for this boot is well",
        origin: "article on isolation, production failure 2; article on determinism, taxonomy",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let reading = &facts.bootfiles().files;
    let files = match reading {
        Reading::Measured(files) => files,
        Reading::Unsupported(_) => {
            return Verdict::not_applicable(
                "no file of GRUB or the Boot Loader Specification: booted from outside, or a container",
            );
        }
        Reading::Failed(why) => return Verdict::unknown(why),
    };
    if !facts.boot().known {
        return Verdict::unknown("/proc/cmdline could not be read");
    }
    if !files.unread.is_empty() {
        return Verdict::unknown(format!("{} could not be read", files.unread.join(", ")));
    }
    let image = facts.boot().value("BOOT_IMAGE").unwrap_or(&facts.kernel().release);
    let gaps = gaps(files, image, &facts.boot().tokens);
    let uncertain = files.configured.as_ref().is_some_and(|c| !c.certain);
    if gaps.is_empty() && uncertain {
        return Verdict::unknown("/etc/default/grub holds values that only a shell can work out");
    }
    if gaps.is_empty() && files.entry(image).is_none() && files.configured.is_none() {
        return Verdict::unknown(format!("no menu entry boots {image}"));
    }
    let verdict = match gaps.is_empty() {
        true => Verdict::pass("the boot loader's files hold the latency parameters that booted"),
        false => {
            let what: Vec<&str> = gaps.iter().map(|gap| gap.title.as_str()).collect();
            Verdict::fail_if(scope.is_declared(), what.join("; "))
        }
    };
    let mut fix: Vec<String> = gaps.iter().map(|gap| command(facts, gap)).collect();
    fix.dedup();
    let verdict = [
        files.configured.as_ref().map(|c| (&c.file, &c.tokens)),
        files.entry(image).map(|e| (&e.file, &e.tokens)),
    ]
    .into_iter()
    .flatten()
    .fold(verdict, |verdict, (file, tokens)| verdict.evidence(file, words(&latency(tokens))));
    verdict.evidence("/proc/cmdline", words(&latency(&facts.boot().tokens))).fix(fix.join("; "))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fix {
    Add,
    Remake,
    Reboot,
}

struct Gap {
    title: String,
    tokens: String,
    fix: Fix,
}

fn command(facts: &Facts, gap: &Gap) -> String {
    match gap.fix {
        Fix::Add => add_to_boot_line(facts, &gap.tokens),
        Fix::Remake => remake_menu(facts),
        Fix::Reboot => "reboot".to_owned(),
    }
}

/// What one place has and another lacks.
fn gaps(files: &Files, image: &str, booted: &[Token]) -> Vec<Gap> {
    let booted = latency(booted);
    let configured = files.configured.as_ref().map(|configured| latency(&configured.tokens));
    let entry = files.entry(image).map(|entry| latency(&entry.tokens));
    let certain = files.configured.as_ref().is_none_or(|configured| configured.certain);
    let none = Vec::new();
    let next = entry.as_ref().or(configured.as_ref()).unwrap_or(&none);
    let everywhere: Vec<String> =
        next.iter().chain(configured.as_ref().unwrap_or(&none)).cloned().collect();
    let mut gaps = Vec::new();
    let mut add = |tokens: Vec<String>, what: &str, fix| {
        if !tokens.is_empty() {
            let tokens = words(&tokens);
            gaps.push(Gap { title: format!("{tokens} {what}"), tokens, fix });
        }
    };
    // Entries after the specification are not made anew from /etc/default/grub.
    let is_own = files.entry(image).is_some_and(|entry| entry.file.ends_with(".conf"));
    if let (Some(configured), Some(entry)) = (&configured, &entry) {
        let what = "is configured, but not in the boot menu";
        let fix = if is_own { Fix::Add } else { Fix::Remake };
        add(minus(configured, entry), what, fix);
        if certain && !is_own {
            let what = "is in the boot menu, but not configured: lost when the menu is made anew";
            add(minus(&minus(entry, configured), &minus(entry, &booted)), what, Fix::Add);
        }
    }
    add(minus(next, &booted), "is in the boot menu, but did not boot", Fix::Reboot);
    if certain && (configured.is_some() || entry.is_some()) {
        let what = "booted, but stands in no file: lost at the next boot";
        add(minus(&booted, &everywhere), what, Fix::Add);
    }
    gaps
}

fn latency(tokens: &[Token]) -> Vec<String> {
    tokens.iter().filter(|token| is_for_latency(&token.name)).map(Token::text).collect()
}

fn minus(these: &[String], those: &[String]) -> Vec<String> {
    these.iter().filter(|token| !those.contains(token)).cloned().collect()
}

fn words(tokens: &[String]) -> String {
    tokens.join(" ")
}

#[cfg(test)]
mod tests {
    use quietcore_facts::Boot;
    use quietcore_facts::bootfiles::{Configured, Entry};

    use super::*;

    fn titles(configured: Option<&str>, menu: Option<&str>, booted: &str) -> Vec<String> {
        titles_with("grub.cfg", configured, menu, booted)
    }

    fn titles_with(
        file: &str,
        configured: Option<&str>,
        menu: Option<&str>,
        booted: &str,
    ) -> Vec<String> {
        let tokens = |line: &str| Boot::parse(line, 3).tokens;
        let files = Files {
            configured: configured.map(|line| Configured {
                file: "/etc/default/grub".to_owned(),
                tokens: tokens(line),
                certain: true,
                ..Configured::default()
            }),
            entries: menu
                .map(|line| Entry {
                    file: file.to_owned(),
                    kernel: "/vmlinuz".to_owned(),
                    tokens: tokens(line),
                })
                .into_iter()
                .collect(),
            unread: Vec::new(),
        };
        gaps(&files, "/vmlinuz", &tokens(booted)).into_iter().map(|gap| gap.title).collect()
    }

    #[test]
    fn each_way_to_lose_a_parameter_has_its_words() {
        let same = Some("quiet isolcpus=2");
        assert_eq!(titles(same, same, "BOOT_IMAGE=/vmlinuz ro isolcpus=2 splash"), [""; 0]);
        assert_eq!(
            titles(same, Some("ro quiet"), "ro quiet"),
            ["isolcpus=2 is configured, but not in the boot menu"]
        );
        assert_eq!(titles(same, same, "ro"), ["isolcpus=2 is in the boot menu, but did not boot"]);
        assert_eq!(
            titles(Some("quiet"), Some("quiet"), "isolcpus=2"),
            ["isolcpus=2 booted, but stands in no file: lost at the next boot"]
        );
        assert_eq!(
            titles(Some("quiet"), same, "isolcpus=2"),
            ["isolcpus=2 is in the boot menu, but not configured: lost when the menu is made anew"]
        );
        assert_eq!(titles(None, same, "isolcpus=2"), [""; 0]);
        assert_eq!(titles(None, None, "isolcpus=2"), [""; 0]);
    }

    #[test]
    fn entries_of_their_own_are_not_lost_at_an_update() {
        let (configured, menu) = (Some("quiet"), Some("quiet isolcpus=2"));
        assert_eq!(titles_with("a.conf", configured, menu, "isolcpus=2"), [""; 0]);
    }
}
