use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "irq.since-boot",
    cause: Cause::Irq,
    about: "No network card has interrupted a CPU meant for latency since boot",
    why: "The columns of /proc/interrupts that belong to these CPUs should be 0 for every queue of a \
          network card. Where the masks are right now and the count is not 0, the queue was there \
          before: a script moved it late, a link came up with fresh vectors, or irqbalance was at \
          work. What happened at this boot happens at the next. The count has no date: a few \
          interrupts from before a script ran are harmless, hence a warning; irq.arriving tells \
          whether they still come.",
    cost: Cost {
        us: 50.0,
        text: "10–50 µs per burst of packets, from boot until the queue is moved",
        origin: "article on isolation, the boot verification script",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let nics = match interfaces::in_use(facts) {
        Ok(nics) => nics,
        Err(verdict) => return verdict,
    };
    let counts = &facts.irqs().counts;
    let mut numbers: Vec<u32> = nics.iter().flat_map(|nic| nic.irqs.iter().copied()).collect();
    numbers.dedup();
    if !facts.irqs().known() {
        return Verdict::unknown_interrupts();
    }
    if numbers.is_empty() {
        let names = interfaces::names(nics);
        return Verdict::not_applicable(format!("no interrupt belongs to {names}"));
    }
    if scope.cpus.iter().any(|cpu| !counts.cpus.contains(&cpu)) {
        return Verdict::unknown(format!("/proc/interrupts lacks some of CPUs {}", scope.cpus));
    }
    let arrived = |number: &u32| {
        let label = number.to_string();
        let count = |cpu| counts.count(&label, cpu).unwrap_or_default();
        let sum = scope.cpus.iter().fold(0u64, |sum, cpu| sum.saturating_add(count(cpu)));
        let actions = counts.rows.get(&label).map(|row| row.actions()).unwrap_or_default();
        (sum > 0).then(|| (format!("/proc/interrupts {label} ({actions})"), sum))
    };
    let hits: Vec<(String, u64)> = numbers.iter().filter_map(arrived).collect();
    if hits.is_empty() {
        return Verdict::pass(format!("no network card has interrupted CPUs {}", scope.cpus))
            .evidence("/proc/interrupts", format!("{} interrupts of cards, all 0", numbers.len()));
    }
    let total = hits.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let title = format!("network cards interrupted CPUs {} {total} times since boot", scope.cpus);
    hits.iter()
        .take(16)
        .fold(Verdict::warn(title), |verdict, (source, count)| verdict.evidence(source, count))
        .fix("set the affinity before the link comes up: a udev rule on the interface, or a unit with Before=network-pre.target")
}
