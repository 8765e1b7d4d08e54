use quietcore_facts::Facts;
use quietcore_sys::lease::Value;

use super::max_frequency::{FREQUENCY, cap, for_each, khz, offered};
use super::{Ask, Knob, Proposal};

pub const KNOB: Knob = Knob {
    id: "min-frequency",
    about: "Lowest frequency of the isolated CPUs (of all where none is isolated); max pins it to the maximum",
    why: "A change of frequency stops the core for 10 to 20 µs while its clock settles, and the \
          first work after a pause runs slowly. Where minimum and maximum are equal there is \
          nothing to change to.",
    price: "watts and heat all the time; less turbo headroom for the other cores",
    risk: "",
    checks: &["freq.locked"],
    takes: FREQUENCY,
    propose,
};

/// No higher than the maximum that there will be: the kernel would cut it down to that.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    for_each(facts, ask, "scaling_min_freq", proposal, |policy, slot, proposal| {
        let wanted = khz(facts, ask, policy, ask.value);
        let Some(cap) = cap(facts, ask, policy) else {
            return proposal.stuck(slot, Value::Absent, "the maximum could not be read");
        };
        match wanted {
            Ok(wanted) => {
                let offers = offered(facts, policy).into_iter().filter(|offer| *offer >= wanted);
                let khz = offers.min().unwrap_or(wanted).min(cap);
                proposal.set(facts, slot, Value::text(khz.to_string()));
            }
            Err(why) => proposal.stuck(slot, Value::Absent, why),
        }
    });
}
