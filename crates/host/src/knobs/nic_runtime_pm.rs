use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "nic-runtime-pm",
    about: "Network cards are not powered down at run time",
    why: "With power/control at `auto` the kernel puts a card to sleep when its driver calls it \
          idle; leaving that state takes 10 ms and more. powertop and TLP set it for everything.",
    price: "a few watts per card",
    risk: "",
    checks: &["net.runtime-pm"],
    takes: Takes::Words(&["on"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let cards = facts.nics().up.iter().filter(|nic| nic.power_control.value().is_some());
    for nic in cards {
        proposal.word(facts, format!("{}/power/control", nic.bus()), ask.value);
    }
}
