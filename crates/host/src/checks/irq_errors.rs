use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.errors",
    cause: Cause::Irq,
    about: "The interrupt controllers report no errors",
    why: "ERR counts errors of the local APIC, MIS wired interrupts that an I/O APIC lost and that \
          the kernel raised again, SPU interrupts that were gone when the CPU asked for their \
          vector (on arm64 the row is Err). Each is hardware, firmware or a device that \
          misbehaves, and a lost interrupt shows as a stall of its device. The counts are since \
          boot and name no device.",
    cost: Cost {
        us: 20.0,
        text: "a delayed or repeated interrupt each; where it strikes is chance",
        origin: "arch/x86/kernel/apic and arch/x86/kernel/irq.c for the meaning; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/interrupts";
    let rows = &facts.irqs().counts.rows;
    if rows.is_empty() {
        return Verdict::unknown(format!("{SOURCE} could not be read"));
    }
    let sum = |label: &str| {
        let row = rows.get(label)?;
        Some((label.to_owned(), row.counts.iter().fold(0u64, |sum, n| sum.saturating_add(*n))))
    };
    let sums: Vec<(String, u64)> =
        ["ERR", "Err", "MIS", "SPU"].into_iter().filter_map(sum).collect();
    if sums.is_empty() {
        return Verdict::not_applicable("this architecture counts no interrupt errors");
    }
    let bad: Vec<String> =
        sums.iter().filter(|(_, n)| *n > 0).map(|(label, n)| format!("{label} {n}")).collect();
    let verdict = match bad.is_empty() {
        true => Verdict::pass("the interrupt controllers report no errors"),
        false => Verdict::warn(format!("interrupt errors since boot: {}", bad.join(", "))),
    };
    sums.iter()
        .fold(verdict, |v, (label, n)| v.evidence(SOURCE, format!("{label} {n}")))
        .fix("watch which device stalls as the count grows; update firmware, reseat the card")
}
