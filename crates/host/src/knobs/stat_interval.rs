use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "stat-interval",
    about: "Seconds between two collections of memory statistics on every CPU",
    why: "vmstat_update is queued on every CPU each second and interrupts what runs there for some microseconds.",
    price: "counters of /proc/vmstat lag behind by as much",
    risk: "",
    checks: &["tick.vmstat"],
    takes: Takes::Number { min: 1, max: 3600, unit: "s" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/vm/stat_interval", ask.value);
}
