use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.affinity",
    cause: Cause::Scheduler,
    about: "The threads that matter run on CPUs meant for latency, and no others do",
    why: "Isolation keeps other tasks away from a CPU; it brings nobody there. A real-time or busy \
          thread that may run elsewhere shares those CPUs with everything that was moved off the \
          isolated ones. A thread that may run on both kinds wanders. Read from the affinity of \
          every thread; busy is half a CPU or more, used or waited for, while probed or else since its start, \
          so a thread that spins only at times needs --probe at such a time.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per preemption or migration, every 10–100 ms",
        origin: "article on determinism, taxonomy",
    },
    kind: Kind::Process,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    if scope.cpus.is_empty() {
        return Verdict::not_applicable("the CPUs that were meant for latency do not exist");
    }
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let (all, cpus) = (subject.threads, &scope.cpus);
    let at_work =
        |t: &&quietcore_facts::process::Thread| t.task.is_realtime() || subject.is_busy(t);
    let astray: Vec<_> =
        all.iter().filter(at_work).filter(|thread| !subject.is_placed(thread)).collect();
    if let Some(first) = astray.first() {
        let verdict = Verdict::fail(format!(
            "{} of {} threads are real-time or busy and may leave CPUs {cpus}: {}",
            astray.len(),
            all.len(),
            names(&astray)
        ));
        let fix = subject.spare_cpu().map(|cpu| format!("taskset -pc {cpu} {}", first.task.tid));
        return subject.evidence(verdict, &astray).fix(fix.unwrap_or_default());
    }
    let wandering: Vec<_> =
        all.iter().filter(|t| t.task.affinity.intersects(cpus) && !subject.is_placed(t)).collect();
    if let Some(first) = wandering.first() {
        let verdict = Verdict::warn(format!(
            "{} of {} threads may run on CPUs {cpus} and elsewhere: {}",
            wandering.len(),
            all.len(),
            names(&wandering)
        ));
        return subject
            .evidence(verdict, &wandering)
            .fix_onto(&scope.housekeeping(facts), |keep| {
                format!("taskset -pc {keep} {}", first.task.tid)
            });
    }
    let placed: Vec<_> = all.iter().filter(|thread| subject.is_placed(thread)).collect();
    if placed.is_empty() {
        return Verdict::warn(format!("none of {} threads may run on CPUs {cpus}", all.len())).fix(
            format!(
                "taskset -pc {} TID, for each thread that is to be quick",
                subject.spare_cpu().unwrap_or_default()
            ),
        );
    }
    let verdict = Verdict::pass(format!(
        "{} of {} threads run on CPUs {cpus} only, the others elsewhere only",
        placed.len(),
        all.len()
    ));
    subject.evidence(verdict, &placed)
}
