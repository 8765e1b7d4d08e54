use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Task;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.autogroup",
    cause: Cause::Scheduler,
    about: "Threads that share a latency CPU are not weighed by their sessions",
    why: "sched_autogroup shares CPU time out between sessions, not threads: the nice value of a \
          thread counts only within its own session. It matters only where ordinary threads share \
          a CPU, and not at all for real-time threads; systemd's slices replace it for services. \
          Judged where at least two ordinary threads are bound to the same latency CPU. (man \
          page: sched(7), the autogroup feature)",
    cost: Cost {
        us: 30.0,
        text: "a time slice of 3–4 ms that a nice value was meant to prevent; ranked at a hundredth, for it takes one",
        origin: "judgement: one slice of kernel/sched/fair.c at HZ=250",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/kernel/sched_autogroup_enabled";
    let enabled = match facts.host().number(SOURCE) {
        Ok(enabled) => enabled != 0,
        Err(error) => return Verdict::unanswered(&error),
    };
    if !enabled {
        return Verdict::pass("time is shared out between threads, not sessions")
            .evidence(SOURCE, 0);
    }
    let mut shared: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let ordinary = |task: &&Task| !task.kernel && !task.is_realtime() && task.affinity.len() == 1;
    for task in facts.tasks().iter().filter(ordinary) {
        let cpu = task.affinity.lowest().filter(|cpu| scope.cpus.contains(*cpu));
        if let Some(cpu) = cpu {
            shared.entry(cpu).or_default().push(task.label());
        }
    }
    shared.retain(|_, tasks| tasks.len() > 1);
    let verdict = match shared.keys().next() {
        None if !facts.tasks().complete() => Verdict::unknown_tasks(facts),
        None => Verdict::pass("no two ordinary threads are bound to one latency CPU"),
        Some(_) => {
            Verdict::warn("ordinary threads that share a latency CPU are weighed by session")
        }
    };
    let verdict = shared.iter().fold(verdict, |verdict, (cpu, tasks)| {
        verdict.evidence(format!("bound to CPU {cpu}"), tasks.join(", "))
    });
    verdict
        .evidence(SOURCE, 1)
        .fix("sysctl -w kernel.sched_autogroup_enabled=0   # or give each thread a CPU of its own")
}
