use quietcore_facts::Facts;
use quietcore_sys::Trouble;
use quietcore_sys::lease::{Slot, Value};

use super::{Ask, Knob, Proposal, Takes};
use crate::plan::Reach;

pub const KNOB: Knob = Knob {
    id: "stop-services",
    about: "Stop and disable services that undo tuning or wake up CPUs",
    why: "irqbalance moves interrupts back onto isolated CPUs within seconds; tuned and the \
          frequency daemons reset governors and affinities to their own profile.",
    price: "what the services did: balanced interrupts, a saved kernel audit log, power profiles",
    risk: "another team may rely on one: name only those that may go",
    checks: &["irq.irqbalance", "service.tuned", "service.cpufreq-daemon"],
    takes: Takes::Names("systemd units"),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    for name in ask.value.names() {
        propose_one(facts, name, ask.reach, proposal);
    }
}

/// Stopped, and where it has an [Install] section disabled; a static unit is only stopped.
fn propose_one(facts: &Facts, name: &str, reach: Reach, proposal: &mut Proposal) {
    let slot = Slot::Unit { name: name.to_owned() };
    let after = match facts.host().look(&slot) {
        Ok(Value::Text(now)) if now.ends_with(" enabled") && reach == Reach::Whole => {
            "inactive disabled".to_owned()
        }
        Ok(Value::Text(now)) => match now.split_once(' ') {
            Some((_, file)) => format!("inactive {file}"),
            None => "inactive".to_owned(),
        },
        Err(Trouble::Missing) => return proposal.absent(name, "no such unit"),
        Ok(_) | Err(_) => "inactive disabled".to_owned(),
    };
    proposal.set(facts, slot, Value::text(after));
}
