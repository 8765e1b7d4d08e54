use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.minor-faults",
    cause: Cause::Memory,
    about: "The threads that matter touch no new memory while they work",
    why: "A minor fault is the first touch of a page: the kernel finds one, zeroes it and enters \
          it, behind the lock of the process' memory map; a huge page takes 512 times the zeroing. \
          Automatic NUMA balancing and copy-on-write after a fork cause them on memory that was \
          there. Between the readings of a probe; more than ten a second is more than rare \
          first touches, so probe when the program is warm.",
    cost: Cost {
        us: 1.0,
        text: "0.5–2 µs per fault, some 100 µs for a huge page, more while the memory map is locked",
        origin: "judgement: a zeroed 4 KiB page; article on profiling, the off-CPU gap, cause 3",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

/// Per second and thread.
const LIMIT: f64 = 10.0;

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
    let seconds = probe.took().0 as f64 / 1e9;
    let rate = |thread: &Thread| {
        let grew = probe.grew(thread.task.tid, |counters| counters.minor_faults)?;
        (seconds > 0.0).then(|| grew as f64 / seconds)
    };
    let known: Vec<(&Thread, f64)> =
        critical.iter().filter_map(|thread| Some((*thread, rate(thread)?))).collect();
    if known.is_empty() {
        return Verdict::unknown("no thread that matters was there for both readings");
    }
    let faulting: Vec<&Thread> =
        known.iter().filter(|(_, rate)| *rate > LIMIT).map(|(thread, _)| *thread).collect();
    let verdict = match faulting.is_empty() {
        true => Verdict::pass(format!(
            "{} threads that matter touch hardly any new memory",
            known.len()
        )),
        false => Verdict::warn(format!("page faults go on in {}", names(&faulting))),
    };
    let verdict = known.iter().fold(verdict, |verdict, (thread, rate)| {
        verdict.evidence(thread.task.label(), format!("{rate:.1} minor faults per second"))
    });
    verdict.fix("allocate and touch all memory at the start (mlockall(), MAP_POPULATE; -XX:+AlwaysPreTouch in Java), and free none of it")
}
