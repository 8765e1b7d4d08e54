use quietcore_facts::Facts;
use quietcore_sys::lease::Setting;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "eee",
    about: "Energy-Efficient Ethernet: whether the link may sleep between packets",
    why: "Both ends let the link sleep when nothing is sent; the next packet waits 7 to 30 µs until \
          it is awake. A quiet market is exactly when it sleeps.",
    price: "up to a watt per port",
    risk: "the link is negotiated anew: down for a few seconds",
    checks: &["net.eee"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.drivers(facts, "Energy-Efficient Ethernet", |driver| {
        driver.eee.map(|_| vec![(Setting::Eee, 0)])
    });
}
