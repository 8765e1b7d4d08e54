use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.major-faults",
    cause: Cause::Memory,
    about: "No thread waits for a disk to bring its memory",
    why: "A major fault reads a page from disk: swapped-out data, program text that was dropped, \
          a mapped file's next page. At the start of a program they are the rule, so what counts \
          is whether they go on: with --probe between the readings; without, only a process that \
          never had one is proven clean.",
    cost: Cost {
        us: 1000.0,
        text: "0.1 ms from a fast disk to 10 ms from a slow one, per fault",
        origin: "judgement: one read of the disk; proc(5) on majflt",
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
    let counters = || subject.threads.iter().filter_map(|thread| thread.counters);
    if counters().next().is_none() {
        return Verdict::unknown("the threads' page faults could not be read");
    }
    let so_far = counters().fold(0_u64, |sum, c| sum.saturating_add(c.major_faults));
    let source = format!("/proc/{}/task/*/stat", facts.pid().unwrap_or_default());
    let Some(probe) = facts.probe() else {
        return match so_far {
            0 => Verdict::pass("no thread ever waited for a disk to bring its memory")
                .evidence(source, "majflt 0"),
            _ => Verdict::unknown(format!(
                "{so_far} major faults since the start; whether they go on, --probe 2s tells"
            ))
            .evidence(source, format!("majflt {so_far}")),
        };
    };
    let grew = |t: &&Thread| probe.grew(t.task.tid, |c| c.major_faults).is_some_and(|g| g > 0);
    let faulting: Vec<&Thread> = subject.threads.iter().filter(grew).collect();
    if faulting.is_empty() {
        return Verdict::pass(format!("no major fault in {}", probe.took()))
            .evidence(source, format!("majflt {so_far}, not growing"));
    }
    let verdict = Verdict::fail(format!("major faults go on in {}", names(&faulting)));
    let verdict = faulting.iter().fold(verdict, |verdict, thread| {
        let grew = probe.grew(thread.task.tid, |c| c.major_faults).unwrap_or_default();
        verdict.evidence(thread.task.label(), format!("{grew} major faults in {}", probe.took()))
    });
    verdict.fix("mlockall(MCL_CURRENT | MCL_FUTURE) in the program; read its files before they are needed (MAP_POPULATE)")
}
