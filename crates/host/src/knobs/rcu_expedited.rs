use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "rcu-expedited",
    about: "Whether RCU interrupts CPUs to end its grace periods sooner",
    why: "Every grace period that somebody waits for is hastened by an interrupt to each CPU \
          that is in the kernel or runs a task.",
    price: "what waits for a grace period (a module that is unloaded, a socket option) waits \
          some ms longer",
    risk: "",
    checks: &["rcu.expedited"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/sys/kernel/rcu_expedited", 0);
}
