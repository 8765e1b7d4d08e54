use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "huge-pages-2m",
    about: "2 MiB pages that are reserved on every memory node of the isolated CPUs",
    why: "A huge page takes one TLB entry instead of 512 and is neither swapped, split, merged \
          nor moved; reserved early it is there for certain.",
    price: "memory: reserved pages are lost to everything else",
    risk: "where memory is fragmented the kernel reserves fewer: then none are reserved, and \
          that is told; on the way back pages in use stay until they are given back",
    checks: &["mem.hugepages-on-node"],
    takes: Takes::Number { min: 1, max: 1_000_000, unit: "pages" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    reserve(facts, ask, 2048, proposal);
}

/// At least as many on each node: pages that somebody else has reserved are not taken away.
pub(super) fn reserve(facts: &Facts, ask: &Ask, size_kib: u64, proposal: &mut Proposal) {
    const NODES: &str = "/sys/devices/system/node";
    let nodes = facts.cpus().nodes_of(&ask.cpus.for_latency());
    if nodes.is_empty() {
        return proposal.absent(NODES, "the memory nodes of the CPUs are not known");
    }
    for node in nodes {
        let file = format!("{NODES}/node{node}/hugepages/hugepages-{size_kib}kB/nr_hugepages");
        let now = facts.host().number(&file).unwrap_or_default();
        proposal.word(facts, file, now.max(ask.value.number()));
        // Fragmented memory yields fewer: no reason to give up the rest of the profile.
        proposal.optional();
    }
}
