use quietcore_facts::{Facts, Probe};
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.arriving",
    cause: Cause::Irq,
    about: "No device interrupt arrives on a CPU meant for latency",
    why: "Masks say where an interrupt should go, /proc/interrupts where it went: the counts per \
          CPU are read twice, and what was added between is what arrived. It holds for the load \
          of that time: a card that received nothing proves nothing about its queues.",
    cost: Cost {
        us: 30.0,
        text: "10–50 µs per interrupt, and the caches it empties",
        origin: "article on determinism, failure 1",
    },
    kind: Kind::Probe,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let (first, second) = (&probe.first.interrupts, &probe.second.interrupts);
    let counted = scope.cpus.iter().all(|cpu| second.cpus.contains(&cpu));
    if first.rows.is_empty() || second.rows.is_empty() || !counted {
        return Verdict::unknown("/proc/interrupts could not be read twice for all these CPUs");
    }
    let mut arrived: Vec<(usize, String, u64)> = Vec::new();
    for cpu in scope.cpus.iter() {
        let device = |label: &str| label.parse::<u32>().is_ok();
        let added = second.since(first, cpu).into_iter().filter(|(label, _)| device(label));
        arrived.extend(added.map(|(label, count)| (cpu, label, count)));
    }
    if arrived.is_empty() {
        return Verdict::pass(format!("no device interrupt arrived on CPUs {}", scope.cpus))
            .evidence("/proc/interrupts", format!("nothing added in {}", probe.took()));
    }
    let total = arrived.iter().fold(0u64, |sum, (_, _, count)| sum.saturating_add(*count));
    arrived.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
    let verdict = Verdict::fail(format!(
        "{total} device interrupts arrived on CPUs {} in {}{}",
        scope.cpus,
        probe.took(),
        rate(probe, total)
    ));
    let verdict = arrived.iter().take(16).fold(verdict, |verdict, (cpu, label, count)| {
        let actions = second.rows.get(label).map(|row| row.actions()).unwrap_or_default();
        verdict.evidence(
            format!("/proc/interrupts {label} ({actions}) on CPU {cpu}"),
            format!("+{count}{}", rate(probe, *count)),
        )
    });
    let mut numbers: Vec<String> = arrived.into_iter().map(|(_, label, _)| label).collect();
    numbers.sort();
    numbers.dedup();
    verdict.fix_onto(&scope.housekeeping(facts), |keep| {
        let numbers = numbers.join(" ");
        format!("for irq in {numbers}; do echo {keep} > /proc/irq/$irq/smp_affinity_list; done")
    })
}

/// ` (40/s)`, empty where the time between the readings is not known.
fn rate(probe: &Probe, count: u64) -> String {
    let seconds = probe.took().0 as f64 / 1e9;
    if seconds > 0.0 { format!(" ({:.1}/s)", count as f64 / seconds) } else { String::new() }
}
