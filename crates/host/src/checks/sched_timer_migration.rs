use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.timer-migration",
    cause: Cause::Tick,
    about: "Timers of idle CPUs do not come to CPUs meant for latency",
    why: "With kernel.timer_migration=1 (the default) a timer that an idle CPU arms is given to a \
          busy one nearby, and a CPU on which a thread spins is always busy. CPUs outside the \
          scheduler's domains, and those of nohz_full=, are not chosen, and nohz_full CPUs even \
          give their own timers away: there it does no harm. On CPUs that are only kept by \
          convention it does. (kernel: kernel/sched/core.c, get_nohz_timer_target)",
    cost: Cost {
        us: 10.0,
        text: "some µs per timer of another CPU, and what its callback does",
        origin: "judgement: no figure is published; tuned's profiles for latency set it to 0",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/kernel/timer_migration";
    let value = match facts.host().number(SOURCE) {
        Ok(value) => value,
        Err(error) => return Verdict::unanswered(&error),
    };
    let isolation = facts.isolation();
    let open = scope.cpus.minus(&isolation.domain.or(&isolation.tickless));
    let verdict = if value == 0 {
        Verdict::pass("timers stay on the CPU that arms them")
    } else if open.is_empty() {
        Verdict::pass(format!("timers migrate, but not to isolated CPUs {}", scope.cpus))
    } else {
        Verdict::warn(format!("timers of idle CPUs migrate to CPUs {open} while they are busy"))
    };
    verdict
        .evidence(SOURCE, value)
        .fix("sysctl -w kernel.timer_migration=0   # and in /etc/sysctl.d to keep it")
}
