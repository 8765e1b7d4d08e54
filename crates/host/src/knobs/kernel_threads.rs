use quietcore_facts::Facts;
use quietcore_sys::host::Task;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "kernel-threads",
    about: "Threads of the kernel that can be elsewhere run on housekeeping CPUs",
    why: "isolcpus= does not keep threads of the kernel away, and those that run RCU callbacks for \
          other CPUs (rcuo) may come back to the CPUs that they were to relieve: 10 to 500 µs each.",
    price: "housekeeping CPUs run them all",
    risk: "a thread that a driver starts later begins where kthreadd may run, which moves, too; \
           one that its driver places itself is drift",
    checks: &["sched.kernel-threads", "rcu.rcuo-placement"],
    takes: Takes::Words(&["housekeeping"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    if ask.cpus.isolated.is_empty() {
        return;
    }
    for task in facts.tasks().iter().filter(|task| is_movable(task)) {
        proposal.thread(facts, task, &ask.cpus.kept(&task.affinity));
    }
}

/// Workers follow the masks of workqueues, threads of interrupts follow their interrupt.
fn is_movable(task: &Task) -> bool {
    let elsewhere = ["irq/", "kworker/"];
    task.kernel && !task.bound && !elsewhere.iter().any(|start| task.name.starts_with(start))
}
