use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.involuntary-now",
    cause: Cause::Scheduler,
    about: "The threads that matter keep their CPU while watched",
    why: "The same counter as proc.involuntary, read twice: every switch between the readings is \
          one that happened under the program as it is now, pinned and warm. A thread that waits \
          for input most of the time is pushed off less often than the program under load would \
          be: probe while it works.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per switch",
        origin: "article on determinism, taxonomy",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let critical = match subject.critical_or() {
        Ok(critical) => critical,
        Err(verdict) => return verdict,
    };
    let grew = |thread: &Thread| probe.grew(thread.task.tid, |counters| counters.involuntary);
    let known: Vec<(&Thread, u64)> =
        critical.iter().filter_map(|thread| Some((*thread, grew(thread)?))).collect();
    if known.is_empty() {
        return Verdict::unknown("no thread that matters was there for both readings");
    }
    let pushed: Vec<&Thread> =
        known.iter().filter(|(_, grew)| *grew > 0).map(|(thread, _)| *thread).collect();
    let verdict = match pushed.is_empty() {
        true => Verdict::pass(format!("{} threads that matter kept their CPUs", known.len())),
        false => Verdict::fail_if(
            scope.is_declared(),
            format!("pushed off their CPU while watched: {}", names(&pushed)),
        ),
    };
    let verdict = known.iter().fold(verdict, |verdict, (thread, grew)| {
        verdict.evidence(
            format!("/proc/{}/status", thread.task.tid),
            format!("{}: {grew} nonvoluntary switches in {}", thread.task.name, probe.took()),
        )
    });
    verdict.fix(
        "move what proc.cpu-busy names off that CPU, or isolate the CPU (isolcpus=, nohz_full=)",
    )
}
