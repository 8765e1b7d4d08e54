use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "bpf-stats",
    about: "Whether every run of every BPF program is timed",
    why: "The kernel reads the clock before and after each run of a BPF program, some per \
          packet: 20 to 50 ns each, for statistics that nobody may look at.",
    price: "bpftop and bpftool prog profile show no run times",
    risk: "whoever is measuring BPF programs now loses the figures",
    checks: &["kernel.bpf-stats"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/kernel/bpf_stats_enabled", 0);
}
