use quietcore_facts::Facts;
use quietcore_measure::Reading;
use quietcore_sys::lease::{Slot, Value};

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "turbo",
    about: "Whether cores may run above their rated frequency",
    why: "How far a core may go beyond its rated frequency depends on how many others work, on \
          heat and on power: a neighbour that wakes up changes the clock of the core that matters, \
          for 10 to 20 µs each time.",
    price: "speed: all that turbo gave, most on a host whose other cores are idle",
    risk: "",
    checks: &["freq.turbo"],
    takes: Takes::Words(&["off"]),
    propose,
};

/// After the frequencies in the list: without turbo the kernel does not give a higher maximum
/// back.
fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    let frequency = facts.frequency();
    let file = frequency.turbo_file;
    match &frequency.turbo {
        Reading::Unsupported(why) => proposal.absent(file, why),
        _ => {
            let off = if file.ends_with("no_turbo") { "1" } else { "0" };
            proposal.set(facts, Slot::word(file), Value::text(off));
        }
    }
}
