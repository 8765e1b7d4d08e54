use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "busy-read",
    about: "Microseconds for which a blocking read of a socket asks the card itself before it \
          sleeps",
    why: "The thread that waits fetches the packet itself: no interrupt, no softirq on another \
          CPU, no wake-up.",
    price: "every program that blocks in a socket read spins for as long: CPU time and watts",
    risk: "sockets that are open already keep the value they were made with",
    checks: &["net.busy-poll"],
    takes: Takes::Number { min: 0, max: 1000, unit: "µs" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/net/core/busy_read", ask.value);
}
