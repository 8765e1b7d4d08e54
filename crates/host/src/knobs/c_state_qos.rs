use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "c-state-qos",
    about: "Longest exit latency in µs that the isolated CPUs may have (all where none is \
            isolated), by PM QoS",
    why: "The idle governor enters no state that takes longer to leave than the CPU's request \
          allows. Unlike c-state-latency it switches no state off: other requests still count, \
          and the tightest wins.",
    price: "watts and heat: idle CPUs stay awake, and the others lose the turbo headroom that \
            sleeping cores leave them",
    risk: "0 makes idle CPUs poll: a hyperthread that polls takes half its core from its sibling",
    checks: &["cstate.pm-qos", "cstate.exit-latency"],
    takes: Takes::Number { min: 0, max: 1_000_000, unit: "µs" },
    propose,
};

/// To the kernel 0 is "no limit" and n/a is "no latency at all".
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let limit = match ask.value.number() {
        0 => "n/a".to_owned(),
        us => us.to_string(),
    };
    for cpu in ask.cpus.for_latency().iter() {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
        proposal.word(facts, file, &limit);
    }
}
