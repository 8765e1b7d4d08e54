use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::{HostError, Task};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.rt-throttling",
    cause: Cause::Scheduler,
    about: "Real-time threads that spin are not stopped by the throttle",
    why: "By default the kernel lets real-time threads run for 950 ms of each second \
          (sched_rt_runtime_us of sched_rt_period_us) and stops a SCHED_FIFO thread that spins \
          for the other 50 ms, even if nothing else wants its CPU. Since Linux 6.12 the fair \
          server does this job and the limit counts only in kernels with CONFIG_RT_GROUP_SCHED. \
          Fails where real-time threads are bound to latency CPUs, or the boot log says that it \
          happened; else it waits for the first one. A spinning thread without any limit must \
          have a CPU of its own, or it starves the kernel's threads there. (kernel: \
          scheduler/sched-rt-group.rst, kernel/sched/rt.c)",
    cost: Cost {
        us: 500.0,
        text: "50 ms of every second, from a thread that spins; ranked at a tenth where it happened since boot, at a hundredth where none was seen",
        origin: "measured: sched_rt_runtime_us=950000 takes 50 ms a second from a FIFO spinner",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

pub(super) const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
pub(super) const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";
const FIX: &str = "sysctl -w kernel.sched_rt_runtime_us=-1   # and in /etc/sysctl.d to keep it";

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let logged = facts.kernel().logged("sched: RT throttling activated");
    if !scope.is_declared() && logged.value().is_none() {
        return Verdict::unknown(format!("whether it ever happened: {}", logged.why()));
    }
    let logged = logged.value().copied().flatten();
    if !scope.is_declared() && logged.is_none() {
        return Verdict::no_intent();
    }
    if facts.kernel().version() >= (6, 12) {
        match facts.host().config("RT_GROUP_SCHED") {
            Ok(None) => {
                return Verdict::not_applicable(
                    "since Linux 6.12 the fair server does this: sched.fair-server",
                );
            }
            Ok(Some(_)) => {}
            Err(error) => return Verdict::unknown(error.to_string()),
        }
    }
    let (runtime, period) = match limit(facts) {
        Ok(limit) => limit,
        Err(error) => return Verdict::unanswered(&error),
    };
    if is_off(runtime, period) {
        return Verdict::pass("no limit on real-time threads").evidence(RUNTIME, runtime);
    }
    let stolen_ms = period.saturating_sub(runtime) / 1000;
    let loss = format!("{stolen_ms} ms of every {}", period / 1000);
    let bound =
        |task: &&Task| !task.kernel && task.is_realtime() && task.affinity.is_subset(&scope.cpus);
    let threads: Vec<&Task> = facts.tasks().iter().filter(bound).collect();
    let running: Vec<String> =
        threads.iter().filter(|task| task.state == 'R').map(|task| task.label()).collect();
    let names: Vec<String> = threads.iter().map(|task| task.label()).collect();
    let stolen_us = stolen_ms.saturating_mul(1000) as f64;
    let expected_us = match (running.is_empty(), logged) {
        (false, _) => stolen_us,
        (true, Some(_)) => stolen_us / 10.0,
        (true, None) => stolen_us / 100.0,
    };
    let verdict = match (logged, running.is_empty()) {
        (Some(line), _) => Verdict::fail_if(
            scope.is_declared(),
            format!("a real-time thread has lost {loss} since boot"),
        )
        .evidence("kernel log", &line.text),
        (None, false) => Verdict::fail(format!(
            "a real-time thread that spins loses {loss}: {}",
            running.join(", ")
        )),
        (None, true) => Verdict::warn(format!("a real-time thread that spins would lose {loss}")),
    };
    let verdict = match names.is_empty() {
        true => verdict,
        false => verdict.evidence("real-time threads on latency CPUs", names.join(", ")),
    };
    verdict.evidence(RUNTIME, runtime).evidence(PERIOD, period).costs_us(expected_us).fix(FIX)
}

/// What real-time threads may use of a period, both in microseconds.
pub(super) fn limit(facts: &Facts) -> Result<(i64, i64), HostError> {
    Ok((facts.host().number(RUNTIME)?, facts.host().number(PERIOD)?))
}

/// Whether that is no limit.
pub(super) fn is_off(runtime: i64, period: i64) -> bool {
    runtime < 0 || runtime >= period
}
