use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_facts::frequency::Policy;
use quietcore_measure::{Cause, CpuSet, Reading};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "freq.epp",
    cause: Cause::Frequency,
    about: "The hardware's own governor is told to favour speed",
    why: "With hardware P-states the CPU picks its frequency itself, and the energy-performance \
          preference says how eagerly: balance_performance, the usual default, lets it hesitate. \
          The performance governor of intel_pstate sets it to performance; powersave leaves it \
          alone, and power-profiles-daemon and tuned rewrite it. Read is what cpufreq says now.",
    cost: Cost {
        us: 30.0,
        text: "a slower climb to full speed after each pause",
        origin: "kernel: admin-guide/pm/intel_pstate, amd-pstate; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let cpus = scope.judged(facts);
    let mut found: BTreeMap<&str, CpuSet> = BTreeMap::new();
    for policy in facts.frequency().of_any(&cpus) {
        if let Some(preference) = policy.preference.value() {
            let all = found.entry(preference).or_default();
            *all = all.or(&policy.cpus.and(&cpus));
        }
    }
    if found.is_empty() {
        let denied = |policy: &&Policy| matches!(policy.preference, Reading::Failed(_));
        if let Some(policy) = facts.frequency().of_any(&cpus).find(denied) {
            return Verdict::unread(&policy.preference);
        }
        let none = "no energy_performance_preference: the hardware does not choose the frequency";
        return Verdict::unread(&facts.frequency().without(none));
    }
    let told = found.values().fold(CpuSet::new(), |all, set| all.or(set));
    let untold = cpus.minus(&told);
    // 0 is what performance means to the hardware.
    let slow: Vec<&str> =
        found.keys().filter(|word| !matches!(**word, "performance" | "0")).copied().collect();
    let verdict = match slow.is_empty() {
        true if !untold.is_empty() => {
            Verdict::unknown(format!("what CPUs {untold} are told could not be read"))
        }
        true => Verdict::pass("the hardware is told to favour performance"),
        false => Verdict::fail_if(
            scope.is_declared(),
            format!("the hardware is told {}", slow.join(", ")),
        ),
    };
    let verdict = found.iter().fold(verdict, |verdict, (word, cpus)| {
        verdict.evidence(format!("cpufreq/energy_performance_preference of CPUs {cpus}"), word)
    });
    verdict.fix(
        "for e in /sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference; \
         do echo performance > $e; done",
    )
}
