use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "energy-performance-bias",
    about: "Energy bias of the isolated CPUs, from 0 (performance) to 15 (power saving)",
    why: "Intel CPUs read this hint when they choose between speed and energy, for the mesh and \
          the last cache, too. The kernel starts at 6, and no governor changes it.",
    price: "some watts",
    risk: "",
    checks: &["freq.epb"],
    takes: Takes::Number { min: 0, max: 15, unit: "" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    if !facts.cpus().has("epb") {
        return proposal.absent("energy_perf_bias", "the CPU has no energy-performance bias");
    }
    for cpu in ask.cpus.for_latency().iter() {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/power/energy_perf_bias");
        proposal.word(facts, path, ask.value);
    }
}
