use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "busy-poll",
    about: "Microseconds for which poll and select ask the card themselves before they sleep",
    why: "The thread that waits fetches the packet itself: no interrupt, no softirq on another \
          CPU, no wake-up.",
    price: "every program that waits in poll or select spins for as long: CPU time and watts",
    risk: "",
    checks: &["net.busy-poll"],
    takes: Takes::Number { min: 0, max: 1000, unit: "µs" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/net/core/busy_poll", ask.value);
}
