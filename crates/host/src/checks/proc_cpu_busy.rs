use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;
use quietcore_sys::host::Task;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.cpu-busy",
    cause: Cause::Scheduler,
    about: "Nobody else runs on the CPU of a busy thread",
    why: "The threads of every process are read twice: a thread of the process that used or \
          waited for half a CPU or more, and any other that ran on the same CPU in between. Times are counted in \
          1/100 s and a thread's CPU is the one it last ran on, so short visitors are missed: a \
          pass says that nobody stayed. The evidence is what `ps -eLo psr,pcpu,comm` would show, \
          over the probe instead of over the threads' lives.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per visit",
        origin: "article on determinism, taxonomy; article on isolation, failure 1",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let busy: Vec<&Thread> = subject.threads.iter().filter(|t| subject.is_busy(t)).collect();
    if busy.is_empty() {
        return Verdict::not_applicable(format!(
            "no thread of the process wanted half a CPU in {}",
            probe.took()
        ));
    }
    // The second reading tells where they were while watched.
    let cpu_of = |tid: u32| probe.second.tasks.iter().find(|t| t.tid == tid).map(|t| t.cpu);
    let is_busy = |task: &Task| busy.iter().any(|thread| thread.task.tid == task.tid);
    let visits = |task: &&Task| {
        let shares = busy
            .iter()
            .any(|thread| thread.task.tid != task.tid && cpu_of(thread.task.tid) == Some(task.cpu));
        shares && probe.share(task.tid).is_some_and(|share| share > 0.0)
    };
    let visitors: Vec<&Task> = probe.second.tasks.iter().filter(visits).collect();
    let strangers = visitors.iter().filter(|task| !is_busy(task)).count();
    let verdict = match (visitors.is_empty(), strangers) {
        (true, _) => Verdict::pass(format!("nobody else ran on the CPUs of {}", names(&busy))),
        (false, 0) => Verdict::fail_if(
            scope.is_declared(),
            format!("busy threads take turns on a CPU: {}", names(&busy)),
        ),
        (false, count) => Verdict::fail_if(
            scope.is_declared(),
            format!("{count} other threads ran on the CPUs of {}", names(&busy)),
        ),
    };
    let verdict = subject.evidence(verdict, &busy);
    let verdict = visitors.iter().take(10).fold(verdict, |verdict, task| {
        let share = probe.share(task.tid).unwrap_or_default();
        verdict.evidence(task.label(), format!("{:.1} % of CPU {}", share * 100.0, task.cpu))
    });
    let keep = match scope.is_declared() {
        true => scope.housekeeping(facts).to_string(),
        false => "OTHER-CPUS".to_owned(),
    };
    let movable = visitors.iter().find(|task| !task.bound && !is_busy(task));
    verdict.fix(match movable {
        Some(task) if !keep.is_empty() => format!("taskset -pc {keep} {}", task.tid),
        _ => "isolate the CPU (isolcpus=, nohz_full=) and give it to one thread".to_owned(),
    })
}
