use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "nmi-watchdog",
    about: "Whether a hardware counter interrupts every CPU to find hard lock-ups",
    why: "The hard-lockup watchdog raises a non-maskable interrupt about every ten seconds of \
          busy time: nothing can defer it, and it keeps a counter from perf.",
    price: "a CPU that hangs with interrupts off is not reported",
    risk: "",
    checks: &["sched.nmi-watchdog"],
    takes: Takes::Words(&["off"]),
    propose,
};

/// Before `watchdog` in the list: while that is 0 this one reads 0 whatever is written to it, so
/// on the way back that one must come first.
fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/kernel/nmi_watchdog", 0);
}
