use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-irqaffinity",
    about: "irqaffinity=: interrupts start on the housekeeping CPUs",
    why: "A driver that is loaded at boot places its interrupts before anything in user space can move \
          them, and some (managed ones) cannot be moved later.",
    price: "the housekeeping CPUs take all of them",
    risk: "needs a reboot",
    checks: &["irq.irqaffinity-token"],
    takes: Takes::Words(&["housekeeping"]),
    propose,
};

fn propose(_: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.parameter_of_cpus("irqaffinity", "", &ask.cpus.housekeeping);
}
