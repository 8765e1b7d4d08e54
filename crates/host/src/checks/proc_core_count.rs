use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::{Cause, CpuSet};

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.core-count",
    cause: Cause::Scheduler,
    about: "The process has a CPU for each of its busy threads",
    why: "Two threads that both want a whole CPU and have one between them take turns, and each \
          turn of the other is a stall. Counts the threads that used or waited for a fifth of a \
          CPU or more while probed: where more of them than CPUs are confined to a set of CPUs, \
          and together want 90 % of it, they stand in each other's way.",
    cost: Cost {
        us: 3000.0,
        text: "a scheduler's slice, 1–4 ms, whenever the other one runs",
        origin: "judgement: a slice of the fair class; sched-design-CFS.rst",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    if facts.probe().is_none() {
        return Verdict::needs_probe();
    }
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let wants: Vec<(&Thread, f64)> = subject
        .threads
        .iter()
        .filter_map(|thread| Some((thread, subject.demand(thread)?)))
        .filter(|(_, demand)| *demand >= 0.2)
        .collect();
    if wants.is_empty() {
        return Verdict::not_applicable("no thread of the process wanted a fifth of a CPU");
    }
    // For each set of CPUs that some thread is confined to: those confined to it or to a part of it.
    let crowd = |cpus: &CpuSet| -> Vec<&Thread> {
        let inside = wants.iter().filter(|(t, _)| t.task.affinity.is_subset(cpus));
        inside.map(|(thread, _)| *thread).collect()
    };
    let load = |cpus: &CpuSet| -> f64 {
        let inside = wants.iter().filter(|(t, _)| t.task.affinity.is_subset(cpus));
        inside.map(|(_, demand)| demand).sum()
    };
    let full = wants
        .iter()
        .map(|(thread, _)| &thread.task.affinity)
        .find(|cpus| crowd(cpus).len() > cpus.len() && load(cpus) >= 0.9 * cpus.len() as f64);
    match full {
        Some(cpus) => {
            let crowd = crowd(cpus);
            let verdict = Verdict::fail_if(
                scope.is_declared(),
                format!("{} busy threads want CPUs {cpus}: {}", crowd.len(), names(&crowd)),
            );
            subject.evidence(verdict, &crowd).fix(format!(
                "run {} threads fewer, or give them more CPUs: taskset -pc LIST TID",
                crowd.len() - cpus.len()
            ))
        }
        None => {
            let busy: Vec<&Thread> = wants.iter().map(|(thread, _)| *thread).collect();
            subject.evidence(
                Verdict::pass(format!("{} busy threads have CPUs enough", busy.len())),
                &busy,
            )
        }
    }
}
