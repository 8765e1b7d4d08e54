use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "zone-reclaim",
    about: "Whether a full memory node makes the allocating thread free pages there",
    why: "A thread whose node is full frees pages for 100 µs to some ms before it takes memory \
          of another node, which would cost 100 ns per miss.",
    price: "more memory of remote nodes once a node is full",
    risk: "",
    checks: &["mem.zone-reclaim"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/vm/zone_reclaim_mode", 0);
}
