use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "numa-balancing",
    about: "Whether the kernel moves memory between nodes by itself",
    why: "The kernel unmaps pages now and then to see who touches them from where: the next \
          access faults, and pages that look misplaced are copied while the thread waits.",
    price: "programs that are bound to no node keep their memory where they first touched it",
    risk: "",
    checks: &["numa.balancing"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/kernel/numa_balancing", 0);
}
