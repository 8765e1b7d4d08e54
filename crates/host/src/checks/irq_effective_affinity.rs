use quietcore_facts::Facts;
use quietcore_facts::irqs::Irq;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.effective-affinity",
    cause: Cause::Irq,
    about: "No device interrupt is sent to a CPU meant for latency",
    why: "isolcpus= keeps tasks away, not interrupts. What counts is where an interrupt is sent \
          now (effective_affinity_list); smp_affinity only says where it may be. An interrupt \
          whose queue the kernel manages (NVMe) cannot be moved by a write: it needs \
          isolcpus=managed_irq. Whether one is managed is known only where debugfs tells. Without \
          interrupt remapping x86 moves an interrupt when it next arrives, so one more hits the \
          CPU that it was moved off.",
    cost: Cost {
        us: 30.0,
        text: "10–50 µs per interrupt, and the caches it empties",
        origin: "article on determinism, failure 1; article on isolation, the production story",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let lines = &facts.irqs().lines;
    if lines.is_empty() {
        return Verdict::unknown("/proc/interrupts lists no device interrupt");
    }
    let on_latency = |irq: &&Irq| irq.targets().is_some_and(|set| set.intersects(&scope.cpus));
    let touching: Vec<&Irq> = lines.iter().filter(on_latency).collect();
    let unread = lines.iter().filter(|irq| irq.targets().is_none()).count();
    if touching.is_empty() && unread > 0 {
        return Verdict::unknown(format!("the affinity of {unread} interrupts could not be read"));
    }
    if touching.is_empty() {
        return Verdict::pass(format!(
            "none of {} interrupts is sent to CPUs {}",
            lines.len(),
            scope.cpus
        ));
    }
    let names: Vec<String> = touching.iter().map(|irq| irq.label()).collect();
    // x86 without interrupt remapping moves an interrupt when it arrives: until then the kernel
    // goes on showing where that last one will go.
    let is_moved = |irq: &Irq| irq.affinity.value().is_some_and(|set| !set.intersects(&scope.cpus));
    let verdict = match touching.iter().all(|irq| is_moved(irq)) {
        true => Verdict::warn(format!(
            "{} of {} interrupts were moved off CPUs {} and arrive there once more: {}",
            touching.len(),
            lines.len(),
            scope.cpus,
            names.join(", ")
        )),
        false => Verdict::fail(format!(
            "{} of {} interrupts are sent to CPUs {}: {}",
            touching.len(),
            lines.len(),
            scope.cpus,
            names.join(", ")
        )),
    };
    let keep = scope.housekeeping(facts);
    let verdict = touching.iter().fold(verdict, |verdict, irq| {
        let targets = irq.targets().map(ToString::to_string).unwrap_or_default();
        let managed = match irq.managed.value() {
            Some(true) => " (managed: only isolcpus=managed_irq moves it)",
            Some(false) => " (movable)",
            None => "",
        };
        let moved = if is_moved(irq) { " (moved, from the next one on)" } else { "" };
        verdict.evidence(
            format!("/proc/irq/{}/effective_affinity_list", irq.number),
            format!("{targets} {}{managed}{moved}", irq.actions),
        )
    });
    let still: Vec<&&Irq> = touching.iter().filter(|irq| !is_moved(irq)).collect();
    if still.is_empty() {
        return verdict.fix(format!(
            "wait for one interrupt each, or for cpu in {}: echo 0, then 1 > /sys/devices/system/cpu/cpu$cpu/online",
            scope.cpus
        ));
    }
    let numbers: Vec<String> = still.iter().map(|irq| irq.number.to_string()).collect();
    verdict.fix_onto(&keep, |keep| {
        let numbers = numbers.join(" ");
        format!("for irq in {numbers}; do echo {keep} > /proc/irq/$irq/smp_affinity_list; done")
    })
}
