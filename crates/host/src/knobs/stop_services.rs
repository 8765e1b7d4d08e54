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
    risk: "another team may rely on one: name only those that may go. auditd refuses systemctl: it \
           is named, and has to be stopped its own way (service auditd stop)",
    checks: &["irq.irqbalance"],
    takes: Takes::Names("systemd units"),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let mut absent = Vec::new();
    for name in ask.value.names() {
        let slot = Slot::Unit { name: name.to_owned() };
        match facts.host().look(&slot) {
            Err(Trouble::Missing) => absent.push(name.as_str()),
            now => {
                let after = stopped(now.ok().as_ref(), ask.reach);
                proposal.set(facts, slot, Value::text(after));
                // One that refuses to be stopped is told; the others are stopped all the same.
                proposal.optional();
            }
        }
    }
    if !absent.is_empty() {
        proposal.absent(absent.join(", "), "no such unit");
    }
}

/// Stopped, and where it has an [Install] section disabled; a static unit is only stopped.
fn stopped(now: Option<&Value>, reach: Reach) -> String {
    match now.and_then(Value::as_text).and_then(|now| now.split_once(' ')) {
        Some((_, "enabled")) if reach == Reach::Whole => "inactive disabled".to_owned(),
        Some((_, file)) => format!("inactive {file}"),
        None => "inactive disabled".to_owned(),
    }
}
