use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "tick.vmstat",
    cause: Cause::Tick,
    about: "Memory statistics are not collected on CPUs meant for latency every second",
    why: "Every vm.stat_interval seconds (1 by default) the kernel queues work on each CPU whose \
          memory counters changed, to fold them into the totals. On a CPU where one thread spins \
          that is a second runnable task, and the tick comes back for it. Since Linux 6.5 \
          isolated CPUs are left out. A thread that never enters the kernel changes no counters \
          and is not hit, hence a warning only. (kernel: admin-guide/sysctl/vm.rst, commit \
          be5e015d107d)",
    cost: Cost {
        us: 10.0,
        text: "a worker's run of some µs, once a second per CPU",
        origin: "judgement: the interval is vm.rst's; tuned's profiles for latency set it to 10",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

/// What tuned sets for latency.
const SELDOM: i64 = 10;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/vm/stat_interval";
    let seconds = match facts.host().number(SOURCE) {
        Ok(seconds) => seconds,
        Err(error) => return Verdict::unanswered(&error),
    };
    let isolation = facts.isolation();
    let left_out = facts.kernel().version() >= (6, 5)
        && scope.cpus.is_subset(&isolation.domain.or(&isolation.tickless));
    let verdict = if left_out && !scope.cpus.is_empty() {
        Verdict::pass("this kernel leaves isolated CPUs out of its memory statistics")
    } else if seconds >= SELDOM {
        Verdict::pass(format!("memory statistics are collected every {seconds} s"))
    } else {
        Verdict::warn(format!(
            "memory statistics are collected on CPUs {} every {seconds} s",
            scope.cpus
        ))
    };
    verdict
        .evidence(SOURCE, seconds)
        .fix("sysctl -w vm.stat_interval=120   # and in /etc/sysctl.d to keep it")
}
