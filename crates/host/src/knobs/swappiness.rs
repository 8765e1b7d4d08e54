use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "swappiness",
    about: "How readily memory of programs is swapped out",
    why: "A page that was swapped out costs a disk read, milliseconds, when it is touched.",
    price: "less memory for the page cache under pressure",
    risk: "",
    checks: &["mem.swap"],
    takes: Takes::Number { min: 0, max: 200, unit: "" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/vm/swappiness", ask.value);
}
