use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "tcp-slow-start-after-idle",
    about: "Whether a TCP connection starts slowly again after a pause",
    why: "After a pause the congestion window shrinks to ten packets: a burst beyond 14 kB pays \
          one to three round trips that it did not pay before the pause.",
    price: "a burst after a pause may meet a network that has become crowded, and lose packets",
    risk: "",
    checks: &["net.tcp-slow-start-after-idle"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/net/ipv4/tcp_slow_start_after_idle", 0);
}
