use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::{Cause, CpuSet};

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.unbalanced",
    cause: Cause::Scheduler,
    about: "No thread waits for load balancing that isolation has switched off",
    why: "isolcpus= takes CPUs out of the scheduler's domains: nothing is balanced among them. \
          `taskset -c 4-7 ./engine` then starts every thread on the same CPU and leaves them \
          there, while 5 to 7 idle. On isolated CPUs each thread needs a CPU of its own. Read from \
          the affinity of every thread, the kernel's list of isolated CPUs, and the CPU each \
          thread last ran on. CPUs that a cpuset partition isolates without isolcpus= are not in \
          that list before kernel 6.9.",
    cost: Cost {
        us: 4000.0,
        text: "a scheduler's slice, 3–4 ms, whenever two of the threads are runnable",
        origin: "admin-guide/kernel-parameters.txt on isolcpus= (no balancing); the slice: sched-design-CFS.rst",
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
    let reading = &facts.cpus().isolated;
    let Some(isolated) = reading.value() else { return Verdict::unread(reading) };
    if isolated.is_empty() {
        return Verdict::not_applicable("no CPU is outside of load balancing");
    }
    let spread = |t: &&Thread| t.task.affinity.len() > 1 && t.task.affinity.is_subset(isolated);
    let spread: Vec<&Thread> = subject.threads.iter().filter(spread).collect();
    let Some(first) = spread.first() else {
        return Verdict::pass("no thread relies on balancing among isolated CPUs");
    };
    let mut on: BTreeMap<usize, Vec<&Thread>> = BTreeMap::new();
    for thread in &spread {
        on.entry(thread.task.cpu).or_default().push(thread);
    }
    let piled: Vec<&Thread> =
        on.values().filter(|them| them.len() > 1).flatten().copied().collect();
    let fix =
        format!("taskset -pc {} {}   # one CPU for each thread", first.task.cpu, first.task.tid);
    if piled.is_empty() {
        let verdict = Verdict::warn(format!(
            "{} threads may run on several isolated CPUs and stay where they are: {}",
            spread.len(),
            names(&spread)
        ));
        return subject.evidence(verdict, &spread).fix(fix);
    }
    let cpus: CpuSet = piled.iter().map(|thread| thread.task.cpu).collect();
    let verdict = Verdict::fail(format!(
        "{} threads may run on several isolated CPUs and sit together on CPU {cpus}: {}",
        piled.len(),
        names(&piled)
    ));
    subject.evidence(verdict, &piled).fix(fix)
}
