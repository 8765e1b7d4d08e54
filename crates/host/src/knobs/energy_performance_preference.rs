use quietcore_facts::Facts;
use quietcore_measure::Reading;
use quietcore_sys::lease::Value;

use super::max_frequency::for_each;
use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "energy-performance-preference",
    about: "How eagerly the hardware's own governor favours speed on the isolated CPUs",
    why: "With hardware P-states the CPU picks its frequency itself; balance_performance, the \
          usual default, lets it hesitate after each pause.",
    price: "watts and heat",
    risk: "",
    checks: &["freq.epp"],
    takes: Takes::Words(&["performance", "balance_performance", "balance_power", "power"]),
    propose,
};

/// Before the governor in the list: while that is performance the kernel refuses any other
/// preference, and so it would on the way back.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let file = "energy_performance_preference";
    for_each(facts, ask, file, proposal, |policy, slot, proposal| {
        let after = Value::text(ask.value.word());
        let held = policy.governor == "performance"
            && policy.preference.value().is_some_and(|now| now != ask.value.word());
        match (&policy.preference, held) {
            (Reading::Unsupported(_), _) => {
                let why = "the hardware does not choose the frequency here";
                proposal.absent(slot.to_string(), why);
            }
            (_, true) => proposal.stuck(slot, after, "the performance governor holds it"),
            _ => proposal.set(facts, slot, after),
        }
    });
}
