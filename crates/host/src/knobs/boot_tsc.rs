use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-tsc",
    about: "tsc=: the time stamp counter is not compared with another clock",
    why: "Where the kernel is not sure of the TSC it reads it beside hpet or acpi_pm twice a second, on \
          one CPU after the other; a comparison that is disturbed makes it take the slow clock for good.",
    price: "a counter that really drifts is not found out; nowatchdog still lets the kernel judge it at boot, reliable does not",
    risk: "needs a reboot; wrong time where the counter is bad: see that clock.tsc-stable passes first",
    checks: &["clock.tsc-watchdog"],
    takes: Takes::Words(&["nowatchdog", "reliable"]),
    propose,
};

fn propose(_: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.parameter("tsc", Some(ask.value.word().to_owned()));
}
