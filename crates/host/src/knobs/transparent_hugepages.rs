use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "transparent-hugepages",
    about: "When the kernel assembles huge pages unasked",
    why: "A page fault may zero 2 MiB instead of 4 KiB, and khugepaged copies pages while the program waits at its mapping's lock.",
    price: "programs that gained from huge pages must ask for them (madvise, hugetlbfs)",
    risk: "",
    checks: &["mem.thp"],
    takes: Takes::Words(&["never", "madvise", "always"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/sys/kernel/mm/transparent_hugepage/enabled", ask.value);
}
