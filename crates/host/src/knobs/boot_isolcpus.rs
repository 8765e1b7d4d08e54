use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-isolcpus",
    about: "isolcpus=: the scheduler puts nothing on the isolated CPUs",
    why: "Load balancing moves other programs onto any CPU that looks free; a CPU outside the \
          scheduler's domains gets only what is placed there.",
    price: "work on isolated CPUs is not balanced: two threads placed on one stay there",
    risk: "needs a reboot; a process that was placed on all CPUs runs on the first one only",
    checks: &["isolation.isolcpus", "isolation.cpus-exist"],
    takes: Takes::Text("flags as isolcpus= takes them: domain, managed_irq,domain"),
    propose,
};

fn propose(_: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let flags = format!("{},", ask.value.word());
    proposal.parameter_of_cpus("isolcpus", &flags, &ask.cpus.isolated);
}
