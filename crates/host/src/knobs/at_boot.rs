use std::path::Path;

use quietcore_facts::Facts;
use quietcore_sys::Trouble;
use quietcore_sys::lease::{STATE, Slot, Value};

use super::{Ask, Knob, Proposal, Takes};
use crate::service::{FILE, Service, UNIT};

pub const KNOB: Knob = Knob {
    id: "at-boot",
    about: "A service tunes the host again at every boot, and verifies it",
    why: "A reboot resets all but the boot line, and a driver that udev loads late puts its \
          interrupts on isolated CPUs: a script that ran too early has cost a P99 of 340 µs.",
    price: "the boot waits for devices and network before latency-critical programs start",
    risk: "the service fails, for all to see, where what was applied does not hold",
    checks: &[],
    takes: Takes::Text("on, or the folder of the journal where it is another"),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let state = match ask.value.word() {
        "on" => STATE,
        folder => folder,
    };
    let enabled = Slot::Enabled { name: UNIT.to_owned() };
    if facts.host().look(&enabled) == Err(Trouble::Missing) {
        return proposal.absent(UNIT, "systemd does not run this host");
    }
    let service = Service::of(facts, Path::new(state));
    if let Err(why) = service.examine() {
        let file = Slot::File { path: FILE.to_owned() };
        return proposal.stuck(file, Value::Absent, why);
    }
    for (slot, after) in service.places() {
        proposal.set(facts, slot, after);
    }
}
