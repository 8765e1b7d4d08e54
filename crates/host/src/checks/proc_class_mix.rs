use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::{Cause, CpuSet};

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.class-mix",
    cause: Cause::Scheduler,
    about: "No ordinary thread of the process is bound to a CPU that a real-time one may hold",
    why: "A SCHED_FIFO thread yields to nobody of an ordinary class. An I/O thread of the same \
          program that may run on no other CPU waits until the real-time one sleeps: buffers \
          fill, packets are dropped. Real-time throttling lets it in for 50 ms of each second, \
          which stops the real-time thread instead. Read from the class and affinity of every \
          thread; a real-time thread that sleeps often does less harm than this says.",
    cost: Cost {
        us: 1000.0,
        text: "as long as the real-time thread runs without sleeping; up to 950 ms under a burst",
        origin: "article on determinism, failure 2; sched-rt-group.rst",
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
    let (realtime, ordinary): (Vec<&Thread>, Vec<&Thread>) =
        subject.threads.iter().partition(|thread| thread.task.is_realtime());
    if realtime.is_empty() {
        return Verdict::not_applicable("no thread of the process is real-time");
    }
    // Only a real-time thread that has no other CPU either is sure to be in the way.
    let pinned = |t: &&&Thread| t.task.affinity.len() == 1;
    let held =
        realtime.iter().filter(pinned).fold(CpuSet::new(), |all, t| all.or(&t.task.affinity));
    let starves = |t: &&&Thread| !t.task.affinity.is_empty() && t.task.affinity.is_subset(&held);
    let starving: Vec<&Thread> = ordinary.iter().filter(starves).copied().collect();
    let Some(first) = starving.first() else {
        return Verdict::pass(format!(
            "none of {} ordinary threads is bound to the CPUs of {} real-time ones",
            ordinary.len(),
            realtime.len()
        ));
    };
    let wanted = starving.iter().fold(CpuSet::new(), |all, t| all.or(&t.task.affinity));
    let holds = |t: &&&Thread| pinned(t) && t.task.affinity.is_subset(&wanted);
    let holding: Vec<&Thread> = realtime.iter().filter(holds).copied().collect();
    let verdict = Verdict::fail_if(
        scope.is_declared(),
        format!("{} wait on the CPU of real-time {}", names(&starving), names(&holding)),
    );
    let verdict = subject.evidence(subject.evidence(verdict, &holding), &starving);
    let elsewhere = match scope.is_declared() {
        true => scope.housekeeping(facts),
        false => facts.cpus().online.minus(&first.task.affinity),
    };
    verdict.fix_onto(&elsewhere, |keep| format!("taskset -pc {keep} {}", first.task.tid))
}
