use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "compaction-proactiveness",
    about: "How eagerly memory is compacted ahead of need (0 to 100)",
    why: "kcompactd moves pages of running programs to make room for huge ones before anybody \
          asks; whoever touches a page meanwhile waits, and its CPUs get a TLB interrupt.",
    price: "a huge page that is asked for later may have to wait for compaction then",
    risk: "back at its old value, one round of compaction follows at once",
    checks: &["mem.compaction-proactiveness"],
    takes: Takes::Number { min: 0, max: 100, unit: "" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/vm/compaction_proactiveness", ask.value);
}
