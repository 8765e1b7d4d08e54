use quietcore_facts::Facts;
use quietcore_facts::memory::pressure;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.io-pressure",
    cause: Cause::Scheduler,
    about: "Tasks do not wait for disks",
    why: "Pressure stall information for I/O is the share of time in which at least one task \
          waited for a disk. A backup, a log that is synced line by line or a dying disk shows \
          here first; threads that touch files on the hot path wait behind it.",
    cost: Cost {
        us: 100.0,
        text: "ms per wait, for threads that touch files; ranked at a tenth of 1 ms, for few of those must be quick",
        origin: "kernel: accounting/psi; the line drawn at 10 %: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/pressure/io";
    let reading = pressure(facts.host(), "io");
    let Some(found) = reading.value() else {
        return Verdict::unknown(format!("{} (psi=1 on the boot line)", reading.why()));
    };
    let value = format!(
        "some avg10={} avg60={}, full avg60={}",
        found.some_avg10, found.some_avg60, found.full_avg60
    );
    match found.some_avg60 > 10.0 {
        true => Verdict::fail_if(
            scope.is_declared(),
            format!("tasks waited for disks {:.0} % of the last minute", found.some_avg60),
        )
        .evidence(SOURCE, value)
        .fix("iotop -ao names the program; keep the hot path off files"),
        false => Verdict::pass("tasks hardly wait for disks").evidence(SOURCE, value),
    }
}
