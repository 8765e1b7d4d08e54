use quietcore_facts::Facts;
use quietcore_sys::lease::Setting;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "nic-coalescing",
    about: "How long a received packet may wait for its interrupt",
    why: "Cards hold an interrupt back so that one serves many packets, and an adaptive driver \
          waits longest in bursts: the first packet after a pause waits 10 to 200 µs.",
    price: "more interrupts, on housekeeping CPUs; less throughput in bursts",
    risk: "a driver that refuses the value, or rounds it, keeps its own: it is named",
    checks: &["net.coalescing"],
    takes: Takes::Number { min: 0, max: 1000, unit: "µs" },
    propose,
};

/// As long as the driver adapts it, the time is not ours: that goes first.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let usecs = u32::try_from(ask.value.number()).unwrap_or_default();
    proposal.drivers(facts, "interrupt coalescing", |driver| {
        driver.coalesce.map(|_| vec![(Setting::AdaptiveRx, 0), (Setting::RxUsecs, usecs)])
    });
}
