use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.timer-slack",
    cause: Cause::Tick,
    about: "The timed sleeps of the threads that matter are not let run late",
    why: "The kernel may end a timed sleep of an ordinary thread (nanosleep, epoll_wait, a futex \
          with a timeout) up to its timer slack late, so that wake-ups can be bundled: 50 µs by \
          default, inherited from whoever started it. Real-time threads have none. Read per \
          thread from /proc/T/timerslack_ns, which takes the privilege to trace.",
    cost: Cost {
        us: 50.0,
        text: "up to 50 µs per timed sleep",
        origin: "prctl(2), PR_SET_TIMERSLACK",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

const LIMIT_NS: u64 = 1_000;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let critical = match subject.critical_or() {
        Ok(critical) => critical,
        Err(verdict) => return verdict,
    };
    let ordinary: Vec<&Thread> =
        critical.iter().filter(|thread| !thread.task.is_realtime()).copied().collect();
    if ordinary.is_empty() {
        return Verdict::pass("all threads that matter are real-time: their sleeps have no slack");
    }
    let slack = |thread: &Thread| thread.counters.and_then(|counters| counters.timer_slack_ns);
    let known: Vec<&Thread> = ordinary.iter().filter(|t| slack(t).is_some()).copied().collect();
    if known.is_empty() {
        return Verdict::unknown("/proc/T/timerslack_ns could not be read (run as root)");
    }
    let late: Vec<&Thread> =
        known.iter().filter(|t| slack(t).is_some_and(|ns| ns > LIMIT_NS)).copied().collect();
    let verdict = match late.is_empty() {
        true => Verdict::pass(format!("timed sleeps of {} threads end on time", known.len())),
        false => Verdict::fail_if(
            scope.is_declared(),
            format!("timed sleeps may end late in {}", names(&late)),
        ),
    };
    let verdict = known.iter().fold(verdict, |verdict, thread| {
        let ns = slack(thread).unwrap_or_default();
        verdict.evidence(
            format!("/proc/{}/timerslack_ns", thread.task.tid),
            format!("{}: {ns}", thread.task.name),
        )
    });
    let worst = late.iter().filter_map(|thread| slack(thread)).max();
    let verdict = match worst {
        Some(ns) => verdict.costs_us(ns as f64 / 1e3),
        None => verdict,
    };
    let tids: Vec<String> = late.iter().map(|thread| thread.task.tid.to_string()).collect();
    verdict.fix(format!(
        "for t in {}; do echo 1 > /proc/$t/timerslack_ns; done   # or prctl(PR_SET_TIMERSLACK, 1) in the program",
        tids.join(" ")
    ))
}
