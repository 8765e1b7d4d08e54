use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "freq.governor",
    cause: Cause::Frequency,
    about: "The governor keeps the frequency up",
    why: "isolcpus and nohz_full say nothing about frequency. Every governor but performance lets \
          a CPU slow down while it waits, and work that arrives begins at the low frequency until \
          the governor (or, with powersave on intel_pstate, the hardware) has noticed. The article \
          names 800 MHz on a CPU rated at 3.4 GHz. A thread that spins keeps its own frequency up \
          under most governors; one that sleeps between packets does not.",
    cost: Cost {
        us: 50.0,
        text: "the first work after a pause runs at a fraction of the speed, until the governor \
               reacts (10 µs to 10 ms)",
        origin: "article on isolation, failure 6; article on C-states (P-states); size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let frequency = facts.frequency();
    if frequency.policies.is_empty() {
        let none = "no frequency driver: there is no governor (see freq.driver)";
        return Verdict::unread(&frequency.without(none));
    }
    let cpus = scope.judged(facts);
    let mut found: BTreeMap<&str, CpuSet> = BTreeMap::new();
    for policy in frequency.of_any(&cpus) {
        let all = found.entry(policy.governor.as_str()).or_default();
        *all = all.or(&policy.cpus.and(&cpus));
    }
    let with = |verdict: Verdict| {
        found.iter().fold(verdict, |verdict, (governor, cpus)| {
            verdict.evidence(format!("cpufreq/scaling_governor of CPUs {cpus}"), governor)
        })
    };
    let governed = found.values().fold(CpuSet::new(), |all, set| all.or(set));
    let unread = cpus.minus(&governed).or(&found.get("").cloned().unwrap_or_default());
    let other = |governor: &&&str| !matches!(**governor, "performance" | "");
    let slow: Vec<&str> = found.keys().filter(other).copied().collect();
    if !slow.is_empty() {
        let slowed = slow
            .iter()
            .filter_map(|name| found.get(name))
            .fold(CpuSet::new(), |all, set| all.or(set));
        return with(Verdict::fail_if(
            scope.is_declared(),
            format!("{} governs CPUs {slowed}", slow.join(", ")),
        ))
        .fix(
            "for g in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do echo \
             performance > $g; done   # or: cpupower frequency-set -g performance",
        );
    }
    if !unread.is_empty() || found.is_empty() {
        return Verdict::unknown(format!("the governor of CPUs {unread} could not be read"));
    }
    with(Verdict::pass(format!("performance governs CPUs {cpus}")))
}
