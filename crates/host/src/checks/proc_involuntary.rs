use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.involuntary",
    cause: Cause::Scheduler,
    about: "The threads that matter have not been pushed off their CPU",
    why: "nonvoluntary_ctxt_switches counts how often a thread was runnable and another one ran \
          instead: on a CPU of its own, hardly ever. The count reaches back to the thread's \
          start and holds its first moments before it was pinned, hence a rate over its life, \
          and one per second as the limit; what happens now is for proc.involuntary-now.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per switch",
        origin: "article on determinism, taxonomy; the limit of one per second: judgement",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

/// Per second of a thread's life.
const LIMIT: f64 = 1.0;
/// Below this age the start outweighs the rest.
const OLD_ENOUGH_NS: u64 = 10_000_000_000;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let critical = match subject.critical_or() {
        Ok(critical) => critical,
        Err(verdict) => return verdict,
    };
    let now = subject.process.now;
    let rate = |thread: &Thread| {
        let lived = thread.lived(now).filter(|lived| lived.0 >= OLD_ENOUGH_NS)?;
        Some(thread.counters?.involuntary as f64 / (lived.0 as f64 / 1e9))
    };
    let known: Vec<(&Thread, f64)> =
        critical.iter().filter_map(|thread| Some((*thread, rate(thread)?))).collect();
    if known.is_empty() {
        return Verdict::unknown("the threads that matter are younger than 10 s");
    }
    let pushed: Vec<&Thread> =
        known.iter().filter(|(_, rate)| *rate > LIMIT).map(|(thread, _)| *thread).collect();
    let verdict = match pushed.is_empty() {
        true => Verdict::pass(format!(
            "{} threads that matter were pushed off their CPU less than once a second",
            known.len()
        )),
        false => Verdict::fail_if(
            scope.is_declared(),
            format!("pushed off their CPU more than once a second: {}", names(&pushed)),
        ),
    };
    let verdict = known.iter().fold(verdict, |verdict, (thread, rate)| {
        let count = thread.counters.map(|c| c.involuntary).unwrap_or_default();
        verdict.evidence(
            format!("/proc/{}/status", thread.task.tid),
            format!("{}: {count} nonvoluntary switches, {rate:.2} per second", thread.task.name),
        )
    });
    verdict.fix("quietcore audit --pid P --probe 5s   # then proc.involuntary-now and proc.cpu-busy name who runs there")
}
