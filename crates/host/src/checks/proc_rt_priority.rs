use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.rt-priority",
    cause: Cause::Scheduler,
    about: "No thread has the real-time priority that the kernel keeps for itself",
    why: "Priority 99 is that of the kernel's own helpers which must get through (watchdogs, \
          posix CPU timers and others on PREEMPT_RT). A thread of the same priority that spins \
          keeps them waiting, and with them whoever waits for them on other CPUs. Nothing is \
          gained: between two programs only the order of priorities counts, and 1 to 98 hold \
          any order.",
    cost: Cost {
        us: 100.0,
        text: "as long as the thread runs, for whoever waits for the kernel's helper; ranked at a tenth of 1 ms, for few do",
        origin: "judgement: how long depends on the program; sched(7) and the real-time wiki advise against 99",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let realtime: Vec<&Thread> =
        subject.threads.iter().filter(|t| matches!(t.task.policy, 1 | 2)).collect();
    if realtime.is_empty() {
        return Verdict::not_applicable("no thread of the process is SCHED_FIFO or SCHED_RR");
    }
    let highest: Vec<&Thread> =
        realtime.iter().filter(|t| t.task.rt_priority >= 99).copied().collect();
    let Some(first) = highest.first() else {
        let top = realtime.iter().map(|t| t.task.rt_priority).max().unwrap_or_default();
        return Verdict::pass(format!("the highest real-time priority is {top}, below 99"));
    };
    let verdict = Verdict::warn(format!("{} have real-time priority 99", names(&highest)));
    subject.evidence(verdict, &highest).fix(format!("chrt --fifo -p 80 {}", first.task.tid))
}
