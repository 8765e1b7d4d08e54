use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-skew-tick",
    about: "skew_tick=1: ticks of different CPUs come at different moments",
    why: "All CPUs take their tick at the same moment otherwise, and queue for the same locks. CPUs \
          whose tick stops have nothing to queue for; the others hold the locks for less time.",
    price: "idle CPUs wake at different moments: some watts",
    risk: "needs a reboot",
    checks: &["boot.skew-tick"],
    takes: Takes::Words(&["on"]),
    propose,
};

fn propose(_: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.parameter("skew_tick", Some("1".to_owned()));
}
