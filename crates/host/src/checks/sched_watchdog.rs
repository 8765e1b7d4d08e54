use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.watchdog",
    cause: Cause::Scheduler,
    about: "The soft-lockup watchdog keeps off CPUs meant for latency",
    why: "The watchdog wakes every CPU of watchdog_cpumask every 4 s (two fifths of \
          watchdog_thresh) by a timer, and lets its highest-priority thread run, to see that it \
          still schedules. CPUs of nohz_full= are left out by default, those of isolcpus= are \
          not. What counts is kernel.watchdog, kernel.soft_watchdog and kernel.watchdog_cpumask \
          as they are now. (kernel: admin-guide/lockup-watchdogs.rst)",
    cost: Cost {
        us: 10.0,
        text: "a timer interrupt and two task switches, some µs each, every 4 s",
        origin: "article on isolation, daemons to kill; the interval from lockup-watchdogs.rst",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const MASK: &str = "/proc/sys/kernel/watchdog_cpumask";
    let host = facts.host();
    for name in ["/proc/sys/kernel/watchdog", "/proc/sys/kernel/soft_watchdog"] {
        match host.number(name) {
            Ok(0) => return Verdict::pass("the soft-lockup watchdog is off").evidence(name, 0),
            Ok(_) => {}
            Err(error) => return Verdict::unanswered(&error),
        }
    }
    let mask = match host.cpu_list(MASK) {
        Ok(mask) => mask,
        Err(error) => return Verdict::unanswered(&error),
    };
    let touched = mask.and(&scope.cpus);
    let verdict = match touched.is_empty() {
        true => Verdict::pass("the soft-lockup watchdog keeps to housekeeping CPUs"),
        false => Verdict::fail(format!("the soft-lockup watchdog wakes CPUs {touched}")),
    };
    verdict.evidence("/proc/sys/kernel/soft_watchdog", 1).evidence(MASK, &mask).fix({
        let keep = scope.housekeeping(facts);
        match keep.is_empty() {
            true => "sysctl -w kernel.watchdog=0".to_owned(),
            false => format!("sysctl -w kernel.watchdog_cpumask={keep}   # or kernel.watchdog=0"),
        }
    })
}
