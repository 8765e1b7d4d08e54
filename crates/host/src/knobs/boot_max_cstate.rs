use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-max-cstate",
    about: "intel_idle.max_cstate= or processor.max_cstate=: no deeper idle state, on every CPU",
    why: "Leaving a deep idle state takes 100 µs and more. Which parameter acts depends on the driver \
          that runs: intel_idle takes the first, acpi_idle the second; the other one is ignored. \
          c-state-latency does it at run time, and for the isolated CPUs alone.",
    price: "watts and heat of the whole machine, and less turbo for the busy CPUs",
    risk: "needs a reboot; 0 is not offered: it hands intel_idle's CPUs to acpi_idle, which takes 0 for 1",
    checks: &["cstate.boot-tokens"],
    takes: Takes::Number { min: 1, max: 9, unit: "" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let driver = facts.idle().driver.value().map_or("none", String::as_str);
    let name = match driver {
        "intel_idle" => "intel_idle.max_cstate",
        "acpi_idle" => "processor.max_cstate",
        other => {
            let why = format!("no parameter limits the idle driver that runs ({other})");
            return proposal.absent("max_cstate=", why);
        }
    };
    proposal.parameter(name, Some(ask.value.number().to_string()));
}
