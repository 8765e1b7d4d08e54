use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "mce-poll",
    about: "Seconds between two looks for corrected hardware errors on every CPU; 0 for none",
    why: "Every CPU, isolated or not, reads dozens of slow registers every 5 minutes to find \
          errors that the hardware has corrected.",
    price: "a memory module that goes bad is seen later, or not until it fails, where the CPU \
          does not report corrected errors by interrupt",
    risk: "",
    checks: &["mem.mce-poll"],
    takes: Takes::Number { min: 0, max: 86_400, unit: "s" },
    propose,
};

/// Each CPU shows the same setting: one write is enough.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let cpu = ask.cpus.for_latency().lowest().unwrap_or_default();
    let folder = "/sys/devices/system/machinecheck";
    proposal.word(facts, format!("{folder}/machinecheck{cpu}/check_interval"), ask.value);
}
