use quietcore_facts::Facts;

use super::huge_pages_2m::reserve;
use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "huge-pages-1g",
    about: "1 GiB pages that are reserved on every memory node of the isolated CPUs",
    why: "A huge page takes one TLB entry instead of 262,144 and is neither swapped, split, \
          merged nor moved; reserved early it is there for certain.",
    price: "memory: reserved pages are lost to everything else",
    risk: "where memory is fragmented the kernel reserves fewer: then none are reserved, and \
          that is told; on the way back pages in use stay until they are given back",
    checks: &["mem.hugepages-on-node"],
    takes: Takes::Number { min: 1, max: 1_000_000, unit: "pages" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    reserve(facts, ask, 1_048_576, proposal);
}
