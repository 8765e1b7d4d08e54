use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.default-affinity",
    cause: Cause::Irq,
    about: "New interrupts start on housekeeping CPUs",
    why: "An interrupt that is requested later (a driver loaded by udev, a link that comes up) \
          starts on the CPUs of /proc/irq/default_smp_affinity. While an isolated CPU is among \
          them, moving the interrupts of today does not keep tomorrow's away. irqaffinity= sets \
          it at boot; the kernel itself only takes isolated CPUs out for managed interrupts.",
    cost: Cost {
        us: 30.0,
        text: "10–50 µs per device interrupt, from the first one after a driver loads",
        origin: "article on determinism, failure 1",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/irq/default_smp_affinity";
    let reading = &facts.irqs().default_affinity;
    let Some(default) = reading.value() else { return Verdict::unread(reading) };
    let touched = default.and(&scope.cpus);
    if touched.is_empty() {
        return Verdict::pass("new interrupts start on housekeeping CPUs")
            .evidence(SOURCE, default);
    }
    let keep = scope.housekeeping(facts);
    let width = facts.cpus().possible.highest().map_or(1, |top| top + 1);
    Verdict::fail(format!("new interrupts may start on CPUs {touched}"))
        .evidence(SOURCE, default)
        .fix_onto(&keep, |keep| {
            let mask = keep.to_mask(width);
            format!("echo {mask} > {SOURCE}   # and irqaffinity={keep} on the boot line")
        })
}
