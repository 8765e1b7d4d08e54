use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.threads-share-cpu",
    cause: Cause::Scheduler,
    about: "No two threads of the process are pinned to the same CPU",
    why: "Pinning a whole process to one CPU pins its helpers with it: a logger, a timer thread, a \
          virtual machine's compilers and collectors. Whenever two are runnable one waits, and on \
          a nohz_full CPU the tick comes back, which stops only while a single task is runnable. \
          Threads that never run do no harm: with --probe, a CPU where at most one of them moved \
          is a warning only.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per switch between them, and the tick while both are runnable",
        origin: "article on determinism, taxonomy; article on isolation, failure 1",
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
    let crowded: Vec<(usize, Vec<&Thread>)> =
        subject.pinned().into_iter().filter(|(_, threads)| threads.len() > 1).collect();
    let Some((cpu, _)) = crowded.first() else {
        return Verdict::pass("no two threads are pinned to the same CPU");
    };
    let moved = |thread: &&&Thread| match facts.probe() {
        Some(probe) => {
            let switches =
                |c: &quietcore_sys::host::ThreadCounters| c.voluntary.saturating_add(c.involuntary);
            let tid = thread.task.tid;
            probe.grew(tid, switches).is_some_and(|grew| grew > 0)
                || probe.share(tid).is_some_and(|share| share > 0.0)
        }
        None => true,
    };
    let harmful = crowded.iter().any(|(cpu, threads)| {
        let meant = scope.cpus.contains(*cpu) || threads.iter().any(|t| t.task.is_realtime());
        meant && threads.iter().filter(moved).count() > 1
    });
    let list: Vec<String> =
        crowded.iter().map(|(cpu, threads)| format!("CPU {cpu}: {}", names(threads))).collect();
    let verdict = Verdict::fail_if(
        harmful && scope.is_declared(),
        format!("threads of the process share a CPU ({})", list.join("; ")),
    );
    let all: Vec<&Thread> = crowded.iter().flat_map(|(_, threads)| threads).copied().collect();
    let to = subject.spare_cpu().filter(|_| scope.is_declared());
    let to = to.map_or_else(|| "OTHER-CPU".to_owned(), |to| to.to_string());
    subject
        .evidence(verdict, &all)
        .fix(format!("taskset -pc {to} TID   # for all but one of the threads on CPU {cpu}"))
}
