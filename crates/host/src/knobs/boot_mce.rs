use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-mce",
    about: "mce=ignore_ce: no timer looks for corrected hardware errors",
    why: "Every CPU, isolated ones too, reads its machine-check banks every 5 minutes: some 10 µs.",
    price: "a memory module that goes bad is seen when it fails",
    risk: "needs a reboot; uncorrected errors still raise an exception",
    checks: &["mem.mce-poll"],
    takes: Takes::Words(&["ignore_ce"]),
    propose,
};

fn propose(_: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.parameter("mce", Some(ask.value.word().to_owned()));
}
