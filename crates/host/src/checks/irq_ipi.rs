use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.ipi",
    cause: Cause::Irq,
    about: "Other CPUs hardly interrupt those meant for latency",
    why: "A CPU interrupts another to make it reschedule (RES), to run a function there (CAL: \
          membarrier, code patching, frequency and PMU reads, RCU) or to forget translations of \
          memory that a thread of the same process unmapped (TLB, counted under CAL as well). No affinity keeps them away; \
          their sender must be found and stopped. The rows of /proc/interrupts are read twice. \
          One is counted per event, and wake-ups of the engine's own threads are among them, so \
          only more than ten per second and CPU are called a fault.",
    cost: Cost {
        us: 3.0,
        text: "1–5 µs per interrupt from another CPU",
        origin: "judgement: entry, handler and exit without device access",
    },
    kind: Kind::Probe,
    needs: Needs::Cpus,
    judge,
};

/// The rows, and what commonly sends them.
const ROWS: [(&str, &str); 3] = [
    ("RES", "wake-ups of threads on that CPU"),
    ("CAL", "membarrier, code patching, perf, frequency reads; TLB is among them"),
    ("TLB", "munmap, mprotect or freed memory in another thread of a process that runs there"),
];
/// Interrupts per second and CPU above which it is a fault, and up to which it is none.
const MANY: f64 = 10.0;
const FEW: f64 = 1.0;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let seconds = probe.took().0 as f64 / 1e9;
    let rows: Vec<_> =
        ROWS.iter().filter(|(row, _)| probe.second.interrupts.rows.contains_key(*row)).collect();
    if seconds <= 0.0 || rows.is_empty() {
        return Verdict::unknown("/proc/interrupts could not be read twice with the time between");
    }
    let mut worst = 0.0f64;
    let mut evidence = Vec::new();
    for cpu in scope.cpus.iter() {
        for (row, sender) in &rows {
            let Some(count) = probe.interrupts(row, cpu) else {
                return Verdict::unknown(format!("row {row} of /proc/interrupts lacks CPU {cpu}"));
            };
            let rate = count as f64 / seconds;
            worst = worst.max(rate);
            if rate > FEW {
                evidence.push((rate, format!("{row} on CPU {cpu}: {rate:.1}/s ({sender})")));
            }
        }
    }
    evidence.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let cpus = &scope.cpus;
    let verdict = match worst {
        w if w > MANY => Verdict::fail(format!(
            "up to {w:.0} interrupts per second from other CPUs on one of {cpus}"
        )),
        w if w > FEW => Verdict::warn(format!(
            "up to {w:.0} interrupts per second from other CPUs on one of {cpus}"
        )),
        _ => Verdict::pass(format!("other CPUs leave CPUs {cpus} alone")),
    };
    evidence
        .into_iter()
        .take(12)
        .fold(verdict, |v, (_, text)| v.evidence("/proc/interrupts", text))
        .fix("trace the sender: perf trace -e ipi:* (6.4 and later), or bpftrace on native_smp_send_reschedule and smp_call_function_many_cond")
}
