use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "ksm",
    about: "Whether the kernel looks for equal pages to merge",
    why: "A merged page is read-only: the next write to it faults and copies, and every merge \
          interrupts the CPUs concerned to flush their TLBs.",
    price: "memory: virtual machines and containers that offered their pages get copies of their \
          own again",
    risk: "taking merged pages apart may need more memory than is free; then some stay merged",
    checks: &["mem.ksm"],
    takes: Takes::Words(&["off"]),
    propose,
};

/// 2 stops it and takes merged pages apart; one that is stopped already is left as it is.
fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    const RUN: &str = "/sys/kernel/mm/ksm/run";
    let stopped = facts.host().number(RUN).ok().filter(|run| *run != 1);
    proposal.word(facts, RUN, stopped.unwrap_or(2));
}
