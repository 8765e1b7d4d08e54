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
    risk: "an interrupt that the kernel manages itself (NVMe queues) cannot be moved; it is named",
    checks: &["irq.effective-affinity", "irq.default-affinity"],
    takes: Takes::Words(&["housekeeping"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.mask(facts, "/proc/irq/default_smp_affinity", &ask.cpus.housekeeping);
    for irq in &facts.irqs().lines {
        let path = format!("/proc/irq/{}/smp_affinity_list", irq.number);
        let Some(now) = irq.affinity.value() else { continue };
        if irq.managed.value() == Some(&true) {
            if now.intersects(&ask.cpus.isolated) {
                let slot = Slot::Knob { path, form: Form::CpuList };
                let why = format!("{}: the kernel manages it itself", irq.label());
                proposal.stuck(slot, Value::text(ask.cpus.housekeeping.to_string()), why);
            }
            continue;
        }
        proposal.list(facts, path, &kept(now, &ask.cpus.housekeeping));
        // EIO: the kernel says only at the write that an interrupt cannot be moved.
        proposal.optional();
    }
}

/// An interrupt that is pinned to some housekeeping CPUs stays there.
fn kept(now: &CpuSet, housekeeping: &CpuSet) -> CpuSet {
    match now.and(housekeeping) {
        inside if inside.is_empty() => housekeeping.clone(),
        inside => inside,
    }
}
