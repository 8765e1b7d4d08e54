use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "watchdog",
    about: "Where the soft-lockup watchdog looks: on housekeeping CPUs only, or nowhere",
    why: "The watchdog wakes every CPU of its mask every 4 s by a timer and lets its \
          highest-priority thread run there. The hard-lockup watchdog keeps to the same mask.",
    price: "an isolated CPU that hangs is not reported; with off none is",
    risk: "",
    checks: &["sched.watchdog"],
    takes: Takes::Words(&["housekeeping", "off"]),
    propose,
};

/// The mask is set for `off`, too: who switches the watchdog on again by hand gets it where it
/// belongs.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.list(facts, "/proc/sys/kernel/watchdog_cpumask", &ask.cpus.housekeeping);
    if ask.value.word() == "off" {
        proposal.word(facts, "/proc/sys/kernel/watchdog", 0);
    }
}
