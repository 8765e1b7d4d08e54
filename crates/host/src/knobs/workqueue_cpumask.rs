use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

/// All unbound workqueues, then the one that writes dirty pages, which has a mask of its own.
const MASKS: [&str; 2] =
    ["/sys/devices/virtual/workqueue/cpumask", "/sys/bus/workqueue/devices/writeback/cpumask"];

pub const KNOB: Knob = Knob {
    id: "workqueue-cpumask",
    about: "Work of the kernel that is bound to no CPU runs on housekeeping CPUs",
    why: "Drivers and file systems hand deferred work to kworker threads, which run wherever the \
          mask of unbound workqueues allows: 50 to 500 µs at a time, with the tick back on.",
    price: "housekeeping CPUs do the deferred work of all",
    risk: "",
    checks: &["sched.workqueue-cpumask", "sched.workqueue-writeback"],
    takes: Takes::Words(&["housekeeping"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    for path in MASKS.iter().filter(|_| !ask.cpus.isolated.is_empty()) {
        proposal.mask(facts, *path, &ask.cpus.housekeeping);
    }
}
