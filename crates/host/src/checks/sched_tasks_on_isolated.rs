use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};
use quietcore_sys::host::Task;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.tasks-on-isolated",
    cause: Cause::Scheduler,
    about: "No program runs on CPUs meant for latency without having been put there",
    why: "A thread that may run on CPUs of both kinds was not put there on purpose. Where the \
          latency CPUs are outside the scheduler's domains it is not moved to them by balancing, \
          but it stays if it was started there, by a shell or a daemon that runs there; where \
          they are not, it may come at any wake-up. Fails on threads that last ran on a latency \
          CPU, and on any such thread where nothing isolates the CPUs. Read from every thread's \
          affinity and the CPU it last ran on: a single look, which misses what came and went.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per time slice of another thread",
        origin: "article on determinism, taxonomy: kernel scheduler jitter",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(tasks) = facts.tasks().all.value() else { return Verdict::unread(&facts.tasks().all) };
    let stray = |task: &&Task| {
        !task.kernel
            && task.affinity.intersects(&scope.cpus)
            && !task.affinity.is_subset(&scope.cpus)
    };
    let stray: Vec<&Task> = tasks.iter().filter(stray).collect();
    let (there, elsewhere): (Vec<&Task>, Vec<&Task>) =
        stray.iter().partition(|task| scope.cpus.contains(task.cpu));
    let isolated = scope.cpus.is_subset(&facts.isolation().domain);
    if stray.is_empty() && !facts.tasks().complete() {
        return Verdict::unknown_tasks(facts);
    }
    if stray.is_empty() {
        return Verdict::pass(format!("every thread allowed on CPUs {} was put there", scope.cpus));
    }
    let verdict = match (there.is_empty(), isolated) {
        (false, _) => Verdict::fail(format!(
            "{} last ran on CPUs {} without having been put there",
            count(there.len()),
            scope.cpus
        )),
        (true, false) => Verdict::fail(format!(
            "{} may be scheduled to CPUs {}",
            count(elsewhere.len()),
            scope.cpus
        )),
        (true, true) => Verdict::warn(format!(
            "{} may run on CPUs {}, if started there",
            count(elsewhere.len()),
            scope.cpus
        )),
    };
    let shown = if there.is_empty() { &elsewhere } else { &there };
    let verdict = shown.iter().take(8).fold(verdict, |verdict, task| {
        verdict.evidence(
            format!("thread {}", task.label()),
            format!("last on CPU {}, may run on {}", task.cpu, task.affinity),
        )
    });
    verdict.fix_onto(&scope.housekeeping(facts), |keep| fix(shown, keep))
}

fn count(threads: usize) -> String {
    match threads {
        1 => "1 thread".to_owned(),
        many => format!("{many} threads"),
    }
}

fn fix(tasks: &[&Task], keep: &CpuSet) -> String {
    let mut pids: Vec<u32> = tasks.iter().map(|task| task.pid).collect();
    pids.dedup();
    let shown: Vec<String> = pids.iter().take(8).map(ToString::to_string).collect();
    let more = if pids.len() > 8 { "   # and so on" } else { "" };
    format!("for pid in {}; do taskset -acp {keep} $pid; done{more}", shown.join(" "))
}
