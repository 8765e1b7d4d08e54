use quietcore_facts::Facts;
use quietcore_sys::lease::{Slot, Value};

use super::{Ask, Knob, Proposal, Takes};

const FOLDER: &str = "/sys/devices/system/cpu/intel_uncore_frequency";

pub const KNOB: Knob = Knob {
    id: "uncore-frequency",
    about: "Frequency of the mesh and the last-level cache; max keeps it at its maximum",
    why: "Intel servers scale the uncore by load, and one thread that spins is little load: the \
          mesh slows down and every miss of the inner caches takes tens of ns longer.",
    price: "watts of every socket, out of the budget that turbo lives on",
    risk: "",
    checks: &["freq.uncore"],
    takes: Takes::Words(&["max"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    let host = facts.host();
    let names = host.list(FOLDER).unwrap_or_default();
    let mut ranges = names
        .iter()
        .filter(|name| name.starts_with("package_") || name.starts_with("uncore"))
        .peekable();
    if ranges.peek().is_none() {
        return proposal.absent(FOLDER, "no uncore frequency is offered here");
    }
    for name in ranges {
        let slot = Slot::word(format!("{FOLDER}/{name}/min_freq_khz"));
        match host.line(&format!("{FOLDER}/{name}/max_freq_khz")) {
            Ok(highest) => proposal.set(facts, slot, Value::text(highest)),
            Err(error) => proposal.stuck(slot, Value::Absent, error.to_string()),
        }
    }
}
