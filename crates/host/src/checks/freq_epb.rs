use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "freq.epb",
    cause: Cause::Frequency,
    about: "The energy-performance bias favours performance",
    why: "Intel CPUs keep a hint from 0 (performance) to 15 (power saving) that the hardware's \
          power control reads when it chooses between speed and energy, for the mesh and the last \
          cache, too. Firmware starts most servers at 6 (normal), and the kernel raises 0 to 6 at \
          boot unless the firmware insists. The governor does not change it.",
    cost: Cost {
        us: 1.0,
        text: "slower uncore and later turbo; below a microsecond per event, all the time",
        origin: "kernel: arch/x86/kernel/cpu/intel_epb.c, admin-guide/pm/intel_epb; size: \
                 judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    if !facts.cpus().has("epb") {
        return Verdict::not_applicable("the CPU has no energy-performance bias");
    }
    if !scope.is_declared() {
        return Verdict::no_intent();
    }
    let cpus = scope.judged(facts);
    let read = |cpu: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/power/energy_perf_bias");
        facts.host().number(&path).map(|bias| (cpu, bias))
    };
    let found: Result<Vec<(usize, i64)>, _> = cpus.iter().map(read).collect();
    let found = match found {
        Ok(found) => found,
        Err(error) => return Verdict::unknown(error.to_string()),
    };
    let worst = found.iter().map(|(_, bias)| *bias).max().unwrap_or_default();
    let biased: CpuSet = found.iter().filter(|(_, bias)| *bias > 0).map(|(cpu, _)| *cpu).collect();
    let verdict = match worst {
        0 => Verdict::pass(format!("CPUs {cpus} favour performance")),
        _ => Verdict::warn(format!("CPUs {biased} have an energy bias of up to {worst} of 15")),
    };
    verdict
        .evidence(format!("power/energy_perf_bias of CPUs {cpus}"), worst)
        .fix("for b in /sys/devices/system/cpu/cpu*/power/energy_perf_bias; do echo 0 > $b; done")
}
