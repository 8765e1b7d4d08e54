use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "rcu.stalls",
    cause: Cause::Rcu,
    about: "No CPU has held up RCU for seconds",
    why: "The kernel reports a stall when a grace period has not ended for 21 s (60 s on some \
          distributions): a CPU was stuck in the kernel, a guest was stopped by its hypervisor, or \
          a real-time thread that spins starves RCU's own threads on its CPU. Each report prints \
          stacks from an interrupt on every CPU. Counted in /sys/kernel/rcu_stall_count by newer \
          kernels, else looked for in the boot log. (kernel: RCU/stallwarn.rst)",
    cost: Cost {
        us: 1000.0,
        text: "seconds on the CPU that is stuck, ms on all for the report; ranked at a thousandth, for it is an exception in a whole boot",
        origin: "RCU/stallwarn.rst: the time after which a stall is reported",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const COUNT: &str = "/sys/kernel/rcu_stall_count";
    let fix = "read the stacks in the kernel log (dmesg | grep -A30 'rcu:.*stall'), and keep real-time threads that spin off CPUs with kernel threads";
    let what = "a CPU held up RCU for seconds";
    let stall =
        |text: &str| text.contains("rcu") && text.contains("stall") && text.contains("detected");
    let logged = facts.kernel().all_logged(stall);
    let count = facts.host().number(COUNT).ok();
    if let Some(line) = logged.value().and_then(|lines| lines.first()) {
        return Verdict::fail_if(scope.is_declared(), what)
            .evidence("kernel log", &line.text)
            .fix(fix);
    }
    match (count, logged.value()) {
        (Some(0), _) => Verdict::pass("RCU was never held up").evidence(COUNT, 0),
        (Some(count), _) => {
            Verdict::fail_if(scope.is_declared(), what).evidence(COUNT, count).fix(fix)
        }
        (None, Some(_)) => {
            Verdict::pass("RCU was never held up").evidence("kernel log", "no stall")
        }
        (None, None) => Verdict::unknown(logged.why()),
    }
}
