use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "thermal.throttle-count",
    cause: Cause::Frequency,
    about: "No CPU was slowed down for its heat since boot",
    why: "At its limit a CPU cuts its own clock, often by half and more, and nothing in the \
          program shows why. Intel's thermal interrupt counts every time per core and package, and \
          newer kernels how long it lasted. The counters start at boot: an old event proves that \
          it can happen on this machine, a new one (thermal.throttling-now) that it does.",
    cost: Cost {
        us: 27.0,
        text: "50–500 µs every 30–300 s; a single event of 100 ms puts thousands of requests into the tail; ranked at a tenth, for it may be over",
        origin: "article on determinism, taxonomy and thermal throttling",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let cpus = scope.judged(facts);
    let counts = &facts.thermal().throttles;
    if counts.is_empty() {
        return Verdict::unknown(match facts.cpus().is_guest() {
            true => "a guest does not see the heat of its CPUs: ask the hypervisor's host",
            false => "no throttle counters here (the CPU or the kernel does not keep them)",
        });
    }
    let hot = counts
        .iter()
        .filter(|(cpu, count)| cpus.contains(**cpu) && (count.core > 0 || count.package > 0));
    let hot: Vec<_> = hot.collect();
    let Some((_, worst)) = hot.iter().max_by_key(|(_, count)| count.core.max(count.package)) else {
        let uncounted: CpuSet = cpus.iter().filter(|cpu| !counts.contains_key(cpu)).collect();
        if !uncounted.is_empty() {
            return Verdict::unknown(format!("the counters of CPUs {uncounted} could not be read"));
        }
        return Verdict::pass(format!("CPUs {cpus} were never slowed down for their heat"))
            .evidence("cpu*/thermal_throttle/*_throttle_count", 0);
    };
    let which: CpuSet = hot.iter().map(|(cpu, _)| **cpu).collect();
    Verdict::fail_if(
        scope.is_declared(),
        format!(
            "CPUs {which} were slowed down for their heat, \
             up to {} times",
            worst.core.max(worst.package)
        ),
    )
    .evidence(
        "thermal_throttle/core_throttle_count",
        format!("{} times, {} ms", worst.core, worst.core_ms),
    )
    .evidence(
        "thermal_throttle/package_throttle_count",
        format!("{} times, {} ms", worst.package, worst.package_ms),
    )
    .fix(
        "look after fans, dust, paste and the firmware's fan profile (maximum), then watch: \
         quietcore power --watch",
    )
}
