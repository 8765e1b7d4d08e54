use quietcore_facts::Facts;
use quietcore_sys::lease::{Slot, Value};

use super::{Ask, Knob, Proposal, Takes};

const UNIT: &str = "irqbalance.service";
const FOLDER: &str = "/etc/systemd/system/irqbalance.service.d";

pub const KNOB: Knob = Knob {
    id: "irqbalance-banned",
    about: "irqbalance, where it has to stay, keeps off isolated CPUs",
    why: "irqbalance moves interrupts every ten seconds. It spares the CPUs that the boot line \
          isolates, unless its own configuration names others, and those of cpusets it does not.",
    price: "interrupts are balanced over fewer CPUs",
    risk: "it may still move an interrupt among housekeeping CPUs; it is restarted once",
    checks: &["irq.irqbalance"],
    takes: Takes::Words(&["isolated"]),
    propose,
};

/// Files of our own beside the unit: an environment file named last overrides the user's, which is
/// not touched. The mask goes before the list in some versions, older ones know only the mask: both
/// say the same. Whoever writes there has irqbalance restarted (`Slot::File`).
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let isolated = &ask.cpus.isolated;
    if isolated.is_empty() {
        return;
    }
    if facts.host().look(&Slot::Unit { name: UNIT.to_owned() }).is_err() {
        return proposal.absent(UNIT, "no such unit");
    }
    let width = facts.cpus().possible.highest().map_or(1, |top| top + 1);
    let environment = format!(
        "# Written by quietcore\nIRQBALANCE_BANNED_CPUS={}\nIRQBALANCE_BANNED_CPULIST={isolated}\n",
        isolated.to_mask(width)
    );
    let unit =
        format!("# Written by quietcore\n[Service]\nEnvironmentFile={FOLDER}/quietcore.env\n");
    proposal.set(facts, Slot::Folder { path: FOLDER.to_owned() }, Value::folder());
    for (name, text) in [("quietcore.env", environment), ("quietcore.conf", unit)] {
        let slot = Slot::File { path: format!("{FOLDER}/{name}") };
        proposal.set(facts, slot, Value::file(text, 0o644));
    }
}
