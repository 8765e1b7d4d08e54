use quietcore_facts::Facts;
use quietcore_facts::idle::IdleState;
use quietcore_measure::CpuSet;
use quietcore_sys::lease::{Slot, Value};

use super::{Ask, Knob, Proposal, Takes};

const CPU: &str = "/sys/devices/system/cpu";

pub const KNOB: Knob = Knob {
    id: "c-state-latency",
    about: "Idle states that take this many µs or more to leave are off on the isolated CPUs (on \
            all where none is isolated)",
    why: "An idle CPU sleeps, and the deeper the longer its first instruction takes: 2 µs out of \
          C1, 200 µs out of C8. A thread that waits for a packet pays it with every packet; \
          without deep states the article's median fell from 50 to 27 µs.",
    price: "watts and heat: idle CPUs stay awake, and the others lose the turbo headroom that \
            sleeping cores leave them",
    risk: "a hyperthread that polls (1 µs: every state but POLL is off) takes half its core from \
           its sibling",
    checks: &["cstate.exit-latency"],
    takes: Takes::Number { min: 1, max: 1_000_000, unit: "µs" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let idle = facts.idle();
    let cpus = ask.cpus.for_latency();
    let with_states: CpuSet =
        idle.states.keys().copied().filter(|cpu| cpus.contains(*cpu)).collect();
    for (cpu, states) in idle.states.iter().filter(|(cpu, _)| cpus.contains(**cpu)) {
        propose_one(facts, *cpu, states, ask.value.number(), proposal);
    }
    if with_states.is_empty() {
        let why = match (facts.boot().value("idle"), idle.driver.value()) {
            (Some("poll"), _) => "idle=poll: idle CPUs do not sleep".to_owned(),
            (_, Some(driver)) => format!("the idle driver ({driver}) has no states"),
            (_, None) => idle.driver.why().to_owned(),
        };
        proposal.absent(format!("{CPU}/cpuidle"), why);
    }
}

/// States below the limit stay as they are. At least one stays on.
fn propose_one(
    facts: &Facts,
    cpu: usize,
    states: &[IdleState],
    limit: i64,
    proposal: &mut Proposal,
) {
    let is_slow = |state: &IdleState| state.latency_us.is_some_and(|us| us >= limit);
    let mut last = states.iter().filter(|state| !state.disabled);
    // With POLL switched off by hand, the shallowest of the others has to remain.
    let kept = match states.iter().any(|state| !state.disabled && !is_slow(state)) {
        true => None,
        false => last.next().map(|state| state.index),
    };
    for state in states.iter().filter(|state| is_slow(state) || state.latency_us.is_none()) {
        let slot = Slot::word(format!("{CPU}/cpu{cpu}/cpuidle/state{}/disable", state.index));
        let off = Value::text("1");
        match (state.latency_us, kept == Some(state.index)) {
            (None, _) => proposal.stuck(slot, off, "its exit latency could not be read"),
            (_, true) => proposal.stuck(slot, off, "it is the last idle state that is on"),
            _ => proposal.set(facts, slot, off),
        }
    }
}
