use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "isolation.housekeeping",
    cause: Cause::Scheduler,
    about: "CPU 0 at least is left for everything that is not meant for latency",
    why: "Everything that is taken off the CPUs meant for latency must run somewhere. CPU 0 is the \
          kernel's default for it: firmware, timekeeping, many drivers and legacy interrupts go \
          there, and it cannot be taken offline on most machines. Where the boot line leaves no \
          CPU, the kernel takes one back (`Housekeeping: must include one present CPU`) and \
          isolates other CPUs than were asked for. Whether the CPUs that are left are enough for \
          the rest, sched.cpu-pressure tells.",
    cost: Cost {
        us: 50.0,
        text: "timekeeping, firmware and driver work on a latency CPU, tens of µs at a time",
        origin: "judgement: what CPU 0 is given by default on x86",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    if !facts.cpus().known {
        return Verdict::unknown_cpus();
    }
    let keep = scope.housekeeping(facts);
    let online = &facts.cpus().online;
    let isolation = facts.isolation();
    let refused = isolation.complaints.iter().find(|line| {
        line.contains("must include one present CPU") || line.starts_with("NO_HZ: Clearing")
    });
    let verdict = if keep.is_empty() {
        Verdict::fail(format!(
            "all CPUs ({online}) are meant for latency: none is left for the rest"
        ))
    } else if let Some(line) = refused {
        Verdict::fail("the kernel took a CPU back for housekeeping").evidence("kernel log", line)
    } else if scope.cpus.contains(0) {
        Verdict::fail("CPU 0 is meant for latency, and the kernel's default for everything else")
    } else {
        Verdict::pass(format!("CPUs {keep} are left for everything else"))
    };
    let first = CpuSet::from_iter([0]);
    verdict
        .evidence("CPUs for latency", &scope.cpus)
        .evidence("/sys/devices/system/cpu/online", online)
        .fix_onto(&scope.cpus.minus(&first), |rest| {
            format!("leave CPU 0 out: name CPUs {rest} instead")
        })
}
