use std::collections::BTreeSet;

use quietcore_facts::Facts;
use quietcore_measure::CpuSet;
use quietcore_sys::lease::{Form, Slot, Value};

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "irq-affinity",
    about: "Interrupts of devices, today's and tomorrow's, go to housekeeping CPUs",
    why: "A device interrupt takes 10 to 50 µs from the thread it hits and evicts its caches; \
          drivers loaded early put queues on isolated CPUs whatever irqaffinity= says.",
    price: "housekeeping CPUs handle all interrupts",
    risk: "an interrupt that the kernel manages itself (NVMe queues) cannot be moved; it is named. \
           One that is moved arrives on its old CPU once more where interrupts are not remapped",
    checks: &["irq.effective-affinity", "irq.default-affinity"],
    takes: Takes::Words(&["housekeeping"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let cpus = ask.cpus;
    if cpus.isolated.is_empty() {
        return;
    }
    proposal.mask(facts, "/proc/irq/default_smp_affinity", &cpus.housekeeping);
    for irq in &facts.irqs().lines {
        let Some(now) = irq.affinity.value() else { continue };
        match irq.managed.value() {
            Some(true) if now.intersects(&cpus.isolated) => {
                let why = format!("{}: the kernel manages it itself", irq.label());
                proposal.stuck(list_of(irq.number), to(&cpus.kept(now)), why);
            }
            Some(true) => {}
            _ => keep_off(facts, ask, irq.number, now, proposal),
        }
    }
    for (number, now) in chained(facts) {
        keep_off(facts, ask, number, &now, proposal);
    }
}

/// One that is pinned to some housekeeping CPUs stays there. The kernel says only at the write that
/// an interrupt cannot be moved: it manages it, or every CPU has its own of that number.
fn keep_off(facts: &Facts, ask: &Ask, number: u32, now: &CpuSet, proposal: &mut Proposal) {
    proposal.set(facts, list_of(number), to(&ask.cpus.kept(now)));
    proposal.optional();
}

/// Interrupts that feed others (a GPIO controller's) have no handler of their own and are in no
/// table, but are sent somewhere. One that is sent nowhere is not in use: when a driver asks for
/// it, it starts on the default CPUs.
fn chained(facts: &Facts) -> Vec<(u32, CpuSet)> {
    let host = facts.host();
    let set = |number: u32, name: &str| host.cpu_list(&format!("/proc/irq/{number}/{name}")).ok();
    let numbers = host.list("/proc/irq").unwrap_or_default();
    let numbers = numbers.iter().filter_map(|name| name.parse::<u32>().ok());
    let known: BTreeSet<u32> = facts.irqs().lines.iter().map(|irq| irq.number).collect();
    numbers
        .filter(|number| !known.contains(number))
        .filter(|number| set(*number, "effective_affinity_list").is_some_and(|s| !s.is_empty()))
        .filter_map(|number| Some((number, set(number, "smp_affinity_list")?)))
        .collect()
}

fn list_of(number: u32) -> Slot {
    Slot::Knob { path: format!("/proc/irq/{number}/smp_affinity_list"), form: Form::CpuList }
}

fn to(cpus: &CpuSet) -> Value {
    Value::text(cpus.to_string())
}
