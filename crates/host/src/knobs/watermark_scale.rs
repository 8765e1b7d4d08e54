use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "watermark-scale",
    about: "How early the kernel frees memory in the background, in units of 0.01 % of memory",
    why: "A burst of packets or a large read empties the small default reserve before kswapd has \
          woken up, and the thread that allocates must free pages itself: 100 µs to some ms.",
    price: "memory: about three times this share of it is kept free",
    risk: "",
    checks: &["mem.min-free"],
    takes: Takes::Number { min: 10, max: 1000, unit: "x 0.01 %" },
    propose,
};

/// A larger head start that somebody chose is kept.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    const SCALE: &str = "/proc/sys/vm/watermark_scale_factor";
    let now = facts.host().number(SCALE).unwrap_or_default();
    proposal.word(facts, SCALE, now.max(ask.value.number()));
}
