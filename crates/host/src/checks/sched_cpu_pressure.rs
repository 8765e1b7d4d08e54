use quietcore_facts::Facts;
use quietcore_facts::memory::pressure;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.cpu-pressure",
    cause: Cause::Scheduler,
    about: "Runnable threads do not wait for a CPU",
    why: "PSI counts the share of time in which some thread was runnable and waited for a CPU. It \
          tells of the whole host: with CPUs kept for latency it is mostly the housekeeping CPUs \
          that are too few, and then interrupts' threads, RCU's threads and the kernel's workers \
          wait, too. A warning only: who waits is not known. Above 10 % over a minute is taken \
          for too much, a judgement. Absent without CONFIG_PSI, or with psi=0. (kernel: \
          accounting/psi.rst)",
    cost: Cost {
        us: 1000.0,
        text: "waits of up to some time slices (3–4 ms each) for whoever waits",
        origin: "judgement: the slice from kernel/sched/fair.c, the share is measured here",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// Percent of a minute.
const TOO_MUCH: f64 = 10.0;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/pressure/cpu";
    let reading = pressure(facts.host(), "cpu");
    let Some(found) = reading.value() else { return Verdict::unread(&reading) };
    let share = found.some_avg60;
    let verdict = match share > TOO_MUCH {
        false => Verdict::pass(format!("threads waited for a CPU in {share} % of the last minute")),
        true => Verdict::warn(format!("threads waited for a CPU in {share} % of the last minute")),
    };
    let keep = scope.housekeeping(facts);
    let fix = match scope.is_declared() {
        true if !keep.is_empty() => {
            format!("run less, or leave more than CPUs {keep} for everything else")
        }
        _ => {
            "run less on this host, or give the latency-critical process CPUs of its own".to_owned()
        }
    };
    verdict.evidence(SOURCE, format!("some avg60={share}")).fix(fix)
}
