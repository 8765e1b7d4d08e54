use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Task;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.kernel-threads",
    cause: Cause::Scheduler,
    about: "Kernel threads that can be elsewhere are not on CPUs meant for latency",
    why: "isolcpus= alone does not keep kernel threads away: only nohz_full= starts them on the other \
          CPUs (up to Linux 6.18). Those bound to a CPU (ksoftirqd/4, migration/4) belong there and \
          are left out, as are the threads of interrupts, which go where their interrupt goes, the \
          workers, which follow the masks of workqueues, and RCU's, which have a check of their \
          own. Fails on threads that last ran on a latency CPU; those that merely may are a \
          warning. Read from every thread's affinity and flags.",
    cost: Cost {
        us: 100.0,
        text: "50–500 µs when one of them runs, and the tick comes back while it does",
        origin: "article on isolation, production failure 1; article on determinism, taxonomy",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(tasks) = facts.tasks().all.value() else { return Verdict::unread(&facts.tasks().all) };
    let allowed = |task: &&Task| is_movable(task) && task.affinity.intersects(&scope.cpus);
    let allowed: Vec<&Task> = tasks.iter().filter(allowed).collect();
    let there: Vec<&Task> =
        allowed.iter().copied().filter(|task| scope.cpus.contains(task.cpu)).collect();
    if allowed.is_empty() {
        return match facts.tasks().complete() {
            true => {
                Verdict::pass(format!("no movable kernel thread may run on CPUs {}", scope.cpus))
            }
            false => Verdict::unknown_tasks(facts),
        };
    }
    let verdict = match there.is_empty() {
        false => Verdict::fail(format!(
            "{} movable kernel threads last ran on CPUs {}",
            there.len(),
            scope.cpus
        )),
        true => Verdict::warn(format!(
            "{} movable kernel threads may run on CPUs {}",
            allowed.len(),
            scope.cpus
        )),
    };
    let shown = if there.is_empty() { &allowed } else { &there };
    let verdict = shown.iter().take(8).fold(verdict, |verdict, task| {
        verdict.evidence(
            format!("kernel thread {}", task.label()),
            format!("last on CPU {}, may run on {}", task.cpu, task.affinity),
        )
    });
    let tids: Vec<String> = shown.iter().map(|task| task.tid.to_string()).collect();
    verdict.fix_onto(&scope.housekeeping(facts), |keep| {
        format!("for tid in {}; do taskset -cp {keep} $tid; done", tids.join(" "))
    })
}

fn is_movable(task: &Task) -> bool {
    let elsewhere = ["irq/", "rcuo", "kworker/"];
    task.kernel && !task.bound && !elsewhere.iter().any(|start| task.name.starts_with(start))
}
