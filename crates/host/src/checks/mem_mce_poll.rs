use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.mce-poll",
    cause: Cause::Tick,
    about: "No timer looks for corrected hardware errors on latency CPUs",
    why: "Every CPU looks through its own machine-check banks every 5 minutes, isolated CPUs \
          included: a timer, and dozens of slow register reads. mce=ignore_ce stops looking for \
          corrected errors (uncorrected ones still raise an exception), and check_interval=0 stops \
          the timer alone. The price: a module that goes bad is seen later.",
    cost: Cost {
        us: 10.0,
        text: "some µs to tens of µs per CPU every 5 minutes",
        origin: "kernel: arch/x86/x86_64/machinecheck (check_interval); tuned's cpu-partitioning \
                 sets ignore_ce=1; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let cpu = scope.judged(facts).lowest().unwrap_or_default();
    let folder = format!("/sys/devices/system/machinecheck/machinecheck{cpu}");
    let interval = match facts.host().number(&format!("{folder}/check_interval")) {
        Ok(seconds) => seconds,
        Err(error) => return Verdict::unanswered(&error),
    };
    let ignored = facts.host().number(&format!("{folder}/ignore_ce")).is_ok_and(|value| value != 0);
    let verdict = match interval > 0 && !ignored {
        true => Verdict::warn(format!("every CPU looks for corrected errors every {interval} s")),
        false => Verdict::pass("no timer looks for corrected errors"),
    };
    verdict
        .evidence(format!("{folder}/check_interval"), interval)
        .evidence(format!("{folder}/ignore_ce"), i32::from(ignored))
        .fix(format!("echo 1 > {folder}/ignore_ce   # at boot: mce=ignore_ce"))
}
