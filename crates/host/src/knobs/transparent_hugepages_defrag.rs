use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "transparent-hugepages-defrag",
    about: "What a page fault does where no huge page is free",
    why: "With always the fault itself moves other pages out of the way until there is a huge \
          page: milliseconds in the faulting thread.",
    price: "fewer huge pages for programs that did not ask for them",
    risk: "",
    checks: &["mem.thp-defrag"],
    takes: Takes::Words(&["never", "madvise", "defer", "defer+madvise", "always"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/sys/kernel/mm/transparent_hugepage/defrag", ask.value);
}
