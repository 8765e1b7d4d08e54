use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "khugepaged",
    about: "Whether khugepaged merges small pages of running programs into huge ones",
    why: "For each merge khugepaged takes the lock of a program's mappings, copies 512 pages and \
          interrupts every CPU that runs the program to flush its TLB.",
    price: "programs that asked for huge pages get them at the first touch only, not later",
    risk: "",
    checks: &["mem.khugepaged"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", 0);
}
