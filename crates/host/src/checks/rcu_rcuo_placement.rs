use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Task;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "rcu.rcuo-placement",
    cause: Cause::Rcu,
    about: "The threads that run RCU callbacks keep off CPUs meant for latency",
    why: "rcu_nocbs= moves callbacks from a CPU to kernel threads (rcuog/N, rcuop/N, rcuos/N), \
          which may run anywhere unless told otherwise: with nohz_full= they are started on the \
          other CPUs, with rcu_nocbs= alone they are not, and the callbacks come back through the \
          door they left by. The threads are there whether or not callbacks are offloaded, so \
          this check says where they may run, not that they work (isolation.rcu-nocbs does).",
    cost: Cost {
        us: 30.0,
        text: "10–50 µs per run of a thread's callbacks",
        origin: "article on isolation, noise source 2 and production failure 4",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(tasks) = facts.tasks().all.value() else { return Verdict::unread(&facts.tasks().all) };
    let threads: Vec<&Task> =
        tasks.iter().filter(|task| task.kernel && task.name.starts_with("rcuo")).collect();
    if !facts.tasks().complete() {
        return Verdict::unknown_tasks(facts);
    }
    if threads.is_empty() {
        return Verdict::not_applicable("no thread runs RCU callbacks for other CPUs");
    }
    let touching: Vec<&&Task> =
        threads.iter().filter(|task| task.affinity.intersects(&scope.cpus)).collect();
    if touching.is_empty() {
        return Verdict::pass(format!("{} RCU threads run on housekeeping CPUs", threads.len()));
    }
    let verdict = Verdict::fail(format!(
        "{} of {} RCU threads may run on CPUs {}",
        touching.len(),
        threads.len(),
        scope.cpus
    ));
    let verdict = touching.iter().take(8).fold(verdict, |verdict, task| {
        verdict.evidence(format!("affinity of {}", task.label()), &task.affinity)
    });
    verdict.fix_onto(&scope.housekeeping(facts), |keep| {
        format!("for tid in $(pgrep '^rcuo'); do taskset -cp {keep} $tid; done")
    })
}
