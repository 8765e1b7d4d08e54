use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Task;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.runnable",
    cause: Cause::Scheduler,
    about: "At most one thread wants each CPU meant for latency",
    why: "The tick of a nohz_full CPU stops only while exactly one task is runnable there, and two \
          runnable threads take turns: one of them waits. Read from the state of every thread and \
          the CPU it is on, in one look that takes some milliseconds: two threads that ran one \
          after the other can both be seen running, and what comes and goes between looks is not \
          seen at all. The audit's own threads are left out.",
    cost: Cost {
        us: 3000.0,
        text: "up to a time slice (3–4 ms at HZ=250) per turn, and the tick comes back",
        origin: "article on isolation, production failure 1; the slice from kernel/sched/fair.c",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(tasks) = facts.tasks().all.value() else { return Verdict::unread(&facts.tasks().all) };
    let own: Option<u32> = facts.host().link("/proc/self").ok().and_then(|pid| pid.parse().ok());
    let mut running: BTreeMap<usize, Vec<&Task>> = BTreeMap::new();
    for task in tasks {
        if task.state == 'R' && scope.cpus.contains(task.cpu) && Some(task.pid) != own {
            running.entry(task.cpu).or_default().push(task);
        }
    }
    let crowded: Vec<(&usize, &Vec<&Task>)> =
        running.iter().filter(|(_, tasks)| tasks.len() > 1).collect();
    if crowded.is_empty() && !facts.tasks().complete() {
        return Verdict::unknown_tasks(facts);
    }
    if crowded.is_empty() {
        return Verdict::pass(format!(
            "at most one thread wants each of CPUs {}, at the moment of the look",
            scope.cpus
        ));
    }
    let cpus: Vec<String> = crowded.iter().map(|(cpu, _)| cpu.to_string()).collect();
    let verdict =
        Verdict::fail(format!("more than one thread wants to run on CPU {}", cpus.join(", ")));
    let verdict = crowded.iter().fold(verdict, |verdict, (cpu, tasks)| {
        let names: Vec<String> = tasks.iter().map(|task| task.label()).collect();
        verdict.evidence(format!("runnable on CPU {cpu}"), names.join(", "))
    });
    let keep = scope.housekeeping(facts);
    let rest = if keep.is_empty() { String::new() } else { format!(", with the rest on {keep}") };
    verdict.fix(format!("give each thread a CPU of its own: taskset -cp CPU TID{rest}"))
}
