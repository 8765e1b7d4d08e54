use quietcore_facts::Facts;
use quietcore_sys::lease::Setting;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "nic-rings",
    about: "Receive descriptors of every card, at most as many as it has",
    why: "A ring holds what arrives while its CPU is busy; one that is too small loses bursts, and \
          each lost segment costs a retransmission. Larger than needed leaves the cache.",
    price: "memory; a ring that does not fit the cache makes every packet slower",
    risk: "the link is down for about two seconds while a driver makes its rings anew",
    checks: &["net.rings"],
    takes: Takes::Number { min: 64, max: 32_768, unit: "packets" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let wanted = u32::try_from(ask.value.number()).unwrap_or_default();
    proposal.drivers(facts, "descriptor rings", |driver| {
        driver.rings.map(|rings| vec![(Setting::RxRing, wanted.min(rings.rx_max))])
    });
}
