use quietcore_facts::Facts;
use quietcore_facts::cgroups::{Cgroups, Membership};
use quietcore_sys::host::Task;
use quietcore_sys::lease::{Slot, Value};

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "process-affinity",
    about: "Programs that were not put on isolated CPUs run on housekeeping CPUs",
    why: "A thread that may run anywhere is sooner or later scheduled to a CPU meant for another, \
          50 to 500 µs at a time; what was started there before the CPUs were isolated stays.",
    price: "housekeeping CPUs run everything else",
    risk: "what systemd or a shell starts from now on inherits it: a latency-critical program has \
           to be placed (`quietcore exec`, taskset, CPUAffinity= of its unit)",
    checks: &["sched.tasks-on-isolated"],
    takes: Takes::Words(&["housekeeping"]),
    propose,
};

/// Threads that may run on isolated CPUs only were put there on purpose, and stay.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let cpus = ask.cpus;
    if cpus.isolated.is_empty() {
        return;
    }
    let own = facts.host().is_live().then(std::process::id);
    let others = facts.tasks().iter().filter(|task| !task.kernel && Some(task.pid) != own);
    for task in others.filter(|task| task.affinity.intersects(&cpus.housekeeping)) {
        let after = cpus.kept(&task.affinity);
        match exclusive_set(facts, ask, task) {
            None => proposal.thread(facts, task, &after),
            Some(folder) => {
                let slot = Slot::Affinity { tid: task.tid, started: task.started };
                let why = format!("{} is in {folder}, which has its CPUs for itself", task.label());
                proposal.stuck(slot, Value::text(after.to_string()), why);
            }
        }
    }
}

/// The group with CPUs of its own (a container runtime's, as a rule) in which a thread that would
/// have to move is: its CPUs are for whoever made the group to choose.
fn exclusive_set(facts: &Facts, ask: &Ask, task: &Task) -> Option<String> {
    if !task.affinity.intersects(&ask.cpus.isolated) {
        return None;
    }
    let limits = facts.cgroups().limits.value()?;
    let below_root = |folder: &&str| !folder.ends_with("/cgroup") && !folder.ends_with("/cpuset");
    let partitions = limits.partitions.iter().map(|partition| partition.folder.as_str());
    let sets = limits.cpusets.iter().filter(|set| set.exclusive).map(|set| set.folder.as_str());
    let mut exclusive = partitions.chain(sets).filter(below_root).peekable();
    exclusive.peek()?;
    let member: Membership = Cgroups::membership(facts, Some(task.pid)).value()?.clone();
    exclusive.find(|folder| member.is_within(folder)).map(str::to_owned)
}
