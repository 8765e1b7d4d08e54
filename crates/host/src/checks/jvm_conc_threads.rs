use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;

use crate::subject::{Subject, java, java_flags, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "jvm.conc-threads",
    cause: Cause::Gc,
    about: "The collector's threads run on housekeeping CPUs, and fit there",
    why: "A collector's threads inherit the affinity of whoever started the machine. Started by \
          `taskset -c 4`, all of them work on the CPU of the thread that is to be quick; started \
          without, as many as the machine has CPUs come to life at once. They are told by the \
          names that the machine gives its own threads (from JDK 9 on); their number is \
          ConcGCThreads and ParallelGCThreads.",
    cost: Cost {
        us: 1_000.0,
        text: "some ms each cycle on a CPU that the collector shares",
        origin: "article on determinism, the flags for Java (on non-isolated CPUs); the figure: judgement",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

const COLLECTING: [&str; 9] = [
    "GC Thread",
    "G1 ",
    "ZWorker",
    "ZDriver",
    "ZDirector",
    "Shenandoah",
    "ParGC Thread",
    "CMS ",
    "VM Thread",
];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let java = match java(facts) {
        Ok(java) => java,
        Err(verdict) => return verdict,
    };
    if !scope.is_declared() {
        return Verdict::no_intent();
    }
    if scope.cpus.is_empty() {
        return Verdict::not_applicable("the CPUs that were meant for latency do not exist");
    }
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let collects = |t: &&Thread| COLLECTING.iter().any(|start| t.task.name.starts_with(start));
    let threads: Vec<&Thread> = subject.threads.iter().filter(collects).collect();
    if threads.is_empty() {
        return Verdict::unknown("no thread has a collector's name (JDK 8 names none)");
    }
    let keep = scope.housekeeping(facts);
    let touching: Vec<&Thread> =
        threads.iter().filter(|t| t.task.affinity.intersects(&scope.cpus)).copied().collect();
    if !touching.is_empty() {
        let verdict = Verdict::fail(format!(
            "{} of {} collector threads may run on CPUs {}: {}",
            touching.len(),
            threads.len(),
            scope.cpus,
            names(&touching)
        ));
        return subject.evidence(verdict, &touching).fix_onto(&keep, |keep| {
            format!("taskset -c {keep} java …   # and move only the thread that is to be quick: taskset -pc CPU TID")
        });
    }
    let flags = java_flags(java).ok();
    let given = |name: &str| flags.and_then(|flags| flags.number(name));
    let many = ["ConcGCThreads", "ParallelGCThreads"]
        .iter()
        .find_map(|name| given(name).filter(|n| *n > keep.len() as u64).map(|n| (name, n)));
    match many {
        Some((name, number)) => Verdict::warn(format!(
            "{name}={number} is more than the {} housekeeping CPUs",
            keep.len()
        ))
        .evidence("housekeeping", &keep)
        .fix_onto(&keep, |keep| format!("-XX:{name}={}", keep.len())),
        None => Verdict::pass(format!(
            "{} collector threads stay off CPUs {}",
            threads.len(),
            scope.cpus
        ))
        .evidence("housekeeping", &keep),
    }
}
