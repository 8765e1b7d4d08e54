use std::collections::BTreeSet;

use quietcore_facts::Facts;
use quietcore_facts::cgroups::Cgroups;
use quietcore_measure::CpuSet;
use quietcore_sys::lease::{Form, Slot, Value};

use super::{Ask, Knob, Proposal, Takes};

/// Where version 1 of the controller is mounted.
const V1: &str = "/sys/fs/cgroup/cpuset";
/// The group for latency-critical programs, and in version 1 the one for everything else.
const OWN: &str = "quietcore";
const REST: &str = "quietcore-system";

pub const KNOB: Knob = Knob {
    id: "cpuset",
    about: "Isolated CPUs in a control group of their own: an isolation without a reboot",
    why: "A cpuset partition takes its CPUs out of the scheduler's domains at run time, as \
          isolcpus= does at boot, and holds what is put into it, children included. Version 1 \
          knows no partitions: there an exclusive set, and one for everything else, keep it apart.",
    price: "a latency-critical program has to be put into the group (cgroup.procs in its folder)",
    risk: "making a partition resets the CPUs of threads around it: place threads afterwards. \
           systemd may switch the controller off again. The partition of CPUs in isolcpus= is refused",
    checks: &["cgroup.cpuset-partition", "cgroup.cpuset-exclusive"],
    takes: Takes::Words(&["exclusive"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    if ask.cpus.isolated.is_empty() {
        return;
    }
    let limits = facts.cgroups().limits.value();
    let root = limits.and_then(|limits| limits.unified.clone());
    match (limits.is_some_and(|limits| !limits.cpusets.is_empty()), root) {
        (true, _) => sets(facts, ask, proposal),
        (false, Some(root)) if controls_cpus(facts, &root) => {
            partition(facts, ask, &root, proposal);
        }
        _ => proposal.absent("/sys/fs/cgroup", "no cpuset controller is mounted"),
    }
}

fn controls_cpus(facts: &Facts, root: &str) -> bool {
    let controllers = facts.host().line(&format!("{root}/cgroup.controllers")).unwrap_or_default();
    controllers.split_whitespace().any(|name| name == "cpuset")
}

/// Version 2. A partition that the kernel takes and calls invalid reads so, which is a refusal.
fn partition(facts: &Facts, ask: &Ask, root: &str, proposal: &mut Proposal) {
    let folder = format!("{root}/{OWN}");
    let word = Slot::word(format!("{folder}/cpuset.cpus.partition"));
    let isolcpus = facts.boot().isolcpus.as_ref().and_then(|i| i.request.cpus.as_ref().ok());
    if isolcpus.is_some_and(|cpus| cpus.intersects(&ask.cpus.isolated)) {
        let why = "isolcpus= isolates these CPUs already: the kernel makes no partition of them";
        return proposal.stuck(word, Value::text("isolated"), why);
    }
    let control = format!("{root}/cgroup.subtree_control");
    let now = facts.host().line(&control).unwrap_or_default();
    let mut controllers: BTreeSet<&str> = now.split_whitespace().collect();
    controllers.insert("cpuset");
    let all: Vec<&str> = controllers.into_iter().collect();
    let slot = Slot::Knob { path: control, form: Form::Controllers };
    proposal.set(facts, slot, Value::text(all.join(" ")));
    proposal.set(facts, Slot::Folder { path: folder.clone() }, Value::folder());
    proposal.list(facts, format!("{folder}/cpuset.cpus"), &ask.cpus.isolated);
    proposal.set(facts, word, Value::text("isolated"));
}

/// Version 1: a set works once it has CPUs and memory nodes.
fn sets(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let nodes = facts.host().cpu_list(&format!("{V1}/cpuset.mems")).unwrap_or_default();
    for (name, cpus) in [(OWN, &ask.cpus.isolated), (REST, &ask.cpus.housekeeping)] {
        let folder = format!("{V1}/{name}");
        proposal.set(facts, Slot::Folder { path: folder.clone() }, Value::folder());
        proposal.list(facts, format!("{folder}/cpuset.cpus"), cpus);
        proposal.list(facts, format!("{folder}/cpuset.mems"), &nodes);
        if name == OWN {
            proposal.word(facts, format!("{folder}/cpuset.cpu_exclusive"), 1);
        }
    }
    let all = facts.host().cpu_list(&format!("{V1}/cpuset.cpus")).unwrap_or_default();
    for (pid, started) in movable(facts, &all) {
        let slot = Slot::Member { pid, started, mount: V1.to_owned() };
        proposal.set(facts, slot, Value::text(format!("/{REST}")));
        proposal.optional();
    }
}

/// Processes that are in no set of their own and all of whose threads may run anywhere: moving one
/// gives its threads the CPUs of the set, and CPUs that somebody has chosen would be lost. (Those
/// are for the knob process-affinity.)
fn movable(facts: &Facts, all: &CpuSet) -> Vec<(u32, u64)> {
    let own = facts.host().is_live().then(std::process::id);
    let tasks = || facts.tasks().iter().filter(|task| !task.kernel && Some(task.pid) != own);
    let chosen: BTreeSet<u32> =
        tasks().filter(|task| task.affinity != *all).map(|task| task.pid).collect();
    let mains = tasks().filter(|task| task.pid == task.tid);
    mains
        .filter(|main| {
            let member = Cgroups::membership(facts, Some(main.pid));
            match member.value().and_then(|member| member.path("cpuset")) {
                Some("/") => !chosen.contains(&main.pid),
                Some(path) => path.strip_prefix('/') == Some(REST),
                None => false,
            }
        })
        .map(|main| (main.pid, main.started))
        .collect()
}
