use quietcore_facts::Facts;
use quietcore_facts::memory::pressure;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.pressure",
    cause: Cause::Memory,
    about: "No task waits for memory",
    why: "Pressure stall information is the share of time in which at least one task waited for \
          memory: reclaim, swap, a page that was thrown away and read again. Anything above 1 % \
          over the last minute is a host that is short of memory now, whatever \"free\" says.",
    cost: Cost {
        us: 1000.0,
        text: "ms per stall, as often as the share says",
        origin: "kernel: accounting/psi; the line drawn at 1 %: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/pressure/memory";
    let reading = pressure(facts.host(), "memory");
    let Some(found) = reading.value() else {
        return Verdict::unknown(format!("{} (psi=1 on the boot line)", reading.why()));
    };
    let value = format!(
        "some avg10={} avg60={}, full avg60={}",
        found.some_avg10, found.some_avg60, found.full_avg60
    );
    let share = found.some_avg10.max(found.some_avg60);
    match share > 1.0 {
        true => Verdict::fail_if(
            scope.is_declared(),
            format!("tasks waited for memory {share:.0} % of the time"),
        )
        .evidence(SOURCE, value)
        .fix("free memory; grep . /sys/fs/cgroup/*/memory.pressure names the group that waits"),
        false => Verdict::pass("tasks do not wait for memory").evidence(SOURCE, value),
    }
}
