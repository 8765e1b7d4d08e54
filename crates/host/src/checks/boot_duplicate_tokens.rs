use std::collections::BTreeMap;

use quietcore_facts::{Boot, Facts};
use quietcore_measure::Cause;

use crate::parameters::is_for_latency;
use crate::remedy::edit_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "boot.duplicate-tokens",
    cause: Cause::Scheduler,
    about: "No latency parameter is given twice or contradicts another",
    why: "Boot lines grow by several hands: the installer's template, /etc/default/grub.d, cloud \
          images, tuned. Where a parameter is given twice, most take the last value, but \
          isolcpus= and nohz_full= keep the first list the kernel can use. Some parameters undo \
          others: nohz=off keeps every tick, nohz_full= or not; idle=poll turns cpuidle off, so \
          that limits on its states mean nothing. Only parameters that decide about latency are judged; hugepagesz= and hugepages= \
          belong together and may repeat.",
    cost: Cost {
        us: 30.0,
        text: "whatever the parameter that lost was to prevent",
        origin: "judgement: between a tick (article on isolation, 1–5 µs) and a misplaced task (50–500 µs)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// May be given more than once.
const REPEATABLE: [&str; 3] = ["hugepages", "hugepagesz", "mce"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let boot = facts.boot();
    if !boot.known {
        return Verdict::unknown("/proc/cmdline could not be read");
    }
    let mut wrong = duplicates(boot);
    wrong.extend(contradictions(boot));
    let harmless = redundant(boot);
    let harms = !wrong.is_empty();
    wrong.extend(harmless);
    if wrong.is_empty() {
        return Verdict::pass("no latency parameter is given twice or contradicts another");
    }
    let named: Vec<String> =
        boot.tokens.iter().filter(|t| is_for_latency(&t.name)).map(|t| t.text()).collect();
    Verdict::fail_if(harms && scope.is_declared(), wrong.join("; "))
        .evidence("/proc/cmdline", named.join(" "))
        .fix(edit_boot_line(facts, "keep one of them"))
}

fn duplicates(boot: &Boot) -> Vec<String> {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let judged = |name: &str| is_for_latency(name) && !REPEATABLE.contains(&name);
    for token in boot.tokens.iter().filter(|token| judged(&token.name)) {
        let value = token.value.as_deref().unwrap_or_default();
        let all = values.entry(&token.name).or_default();
        if !all.contains(&value) {
            all.push(value);
        }
    }
    let several = values.into_iter().filter(|(_, all)| all.len() > 1);
    several
        .map(|(name, all)| {
            let counts = match name {
                "isolcpus" => boot.isolcpus.as_ref().map(|i| i.text().replacen("isolcpus=", "", 1)),
                "nohz_full" => boot.nohz_full.as_ref().map(|request| request.text.clone()),
                _ => all.last().map(|value| (*value).to_owned()),
            };
            let counts = counts.unwrap_or_default();
            format!("{name}= is given as {}: {counts} counts", all.join(" and "))
        })
        .collect()
}

fn contradictions(boot: &Boot) -> Vec<String> {
    let has = |name: &str| boot.value(name).is_some();
    let mut wrong = Vec::new();
    if matches!(boot.value("nohz"), Some("off" | "0" | "n")) && has("nohz_full") {
        wrong.push("nohz=off keeps the tick, whatever nohz_full= says".to_owned());
    }
    if has("nohz_full") && boot.value("highres") == Some("off") {
        wrong
            .push("highres=off ties every timer to the tick that nohz_full= is to stop".to_owned());
    }
    wrong
}

/// What does no harm, but does not do what it says.
fn redundant(boot: &Boot) -> Vec<String> {
    if boot.value("idle") != Some("poll") {
        return Vec::new();
    }
    let limits = ["intel_idle.max_cstate", "processor.max_cstate", "cpuidle.governor"];
    let given = limits.iter().filter(|name| boot.value(name).is_some());
    given.map(|name| format!("{name}= means nothing beside idle=poll")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<String> {
        let boot = Boot::parse(line, 7);
        let mut all = duplicates(&boot);
        all.extend(contradictions(&boot));
        all.extend(redundant(&boot));
        all
    }

    #[test]
    fn only_different_values_of_parameters_that_do_not_add_up_are_duplicates() {
        assert_eq!(found("isolcpus=2 nohz_full=2 isolcpus=2 console=tty0 console=ttyS0"), [""; 0]);
        assert_eq!(found("hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=8"), [""; 0]);
        assert_eq!(found("isolcpus=2 isolcpus=3"), ["isolcpus= is given as 2 and 3: 2 counts"]);
        assert_eq!(
            found("isolcpus=x isolcpus=domain,3"),
            ["isolcpus= is given as x and domain,3: domain,3 counts"]
        );
        assert_eq!(
            found("mitigations=off mitigations=auto"),
            ["mitigations= is given as off and auto: auto counts"]
        );
    }

    #[test]
    fn parameters_that_undo_each_other_are_named() {
        assert_eq!(found("nohz=off nohz_full=2").len(), 1);
        assert_eq!(found("idle=poll intel_idle.max_cstate=0 processor.max_cstate=0").len(), 2);
        assert_eq!(found("nowatchdog nmi_watchdog=0"), [""; 0]);
        assert_eq!(found("nowatchdog nmi_watchdog=panic"), [""; 0]);
    }
}
