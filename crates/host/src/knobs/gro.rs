use quietcore_facts::Facts;
use quietcore_sys::lease::Setting;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "gro",
    about: "Whether received packets are merged, and whether merged ones may be held back",
    why: "Merged packets are handed on at the end of the same round, unless gro_flush_timeout lets \
          them wait, 20 µs and more. Merging itself (off) costs a lone packet next to nothing.",
    price: "prompt: none. off: every packet goes through the stack by itself, more CPU time",
    risk: "programs that busy-poll with SO_PREFER_BUSY_POLL need gro_flush_timeout: leave it then",
    checks: &["net.gro"],
    takes: Takes::Words(&["prompt", "off"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    for nic in &facts.nics().up {
        let path = format!("/sys/class/net/{}/gro_flush_timeout", nic.name);
        proposal.word(facts, path, 0);
    }
    if ask.value.word() == "off" {
        proposal.drivers(facts, "GRO", |driver| driver.gro.map(|_| vec![(Setting::Gro, 0)]));
    }
}
