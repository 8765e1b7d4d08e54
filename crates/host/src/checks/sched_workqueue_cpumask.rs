use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.workqueue-cpumask",
    cause: Cause::Scheduler,
    about: "Work that is bound to no CPU keeps off CPUs meant for latency",
    why: "Drivers and file systems hand deferred work to kworker threads. Those of unbound \
          workqueues run on the CPUs of /sys/devices/virtual/workqueue/cpumask; isolcpus=domain \
          and nohz_full= take their CPUs out of it at boot, --cpus by convention and partitions \
          of older kernels do not. Work bound to a CPU is not affected by the mask.",
    cost: Cost {
        us: 100.0,
        text: "50–500 µs when a worker runs, and the tick comes back while it does",
        origin: "article on determinism, taxonomy; article on isolation, production failure 1",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

pub const SOURCE: &str = "/sys/devices/virtual/workqueue/cpumask";

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let mask = match facts.host().cpu_mask(SOURCE) {
        Ok(mask) => mask,
        Err(error) => return Verdict::unanswered(&error),
    };
    let touched = mask.and(&scope.cpus);
    if touched.is_empty() {
        return Verdict::pass("unbound work runs on housekeeping CPUs").evidence(SOURCE, mask);
    }
    let width = facts.cpus().possible.highest().map_or(1, |top| top + 1);
    Verdict::fail(format!("unbound work may run on CPUs {touched}"))
        .evidence(SOURCE, &mask)
        .fix_onto(&scope.housekeeping(facts), |keep| {
            format!("echo {} > {SOURCE}", keep.to_mask(width))
        })
}
