use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-rcu-nocbs",
    about: "rcu_nocbs=: RCU callbacks of the isolated CPUs run elsewhere",
    why: "Callbacks that free the kernel's old data take 10–50 µs on the CPU that queued them; offloaded, \
          threads on housekeeping CPUs do it. With `poll` those threads look by themselves, and the isolated \
          CPUs need not wake them.",
    price: "the housekeeping CPUs do the work; with poll they wake all the time, which costs watts",
    risk: "needs a reboot, and a kernel with CONFIG_RCU_NOCB_CPU; too few housekeeping CPUs fall behind, and memory is freed late",
    checks: &["isolation.rcu-nocbs"],
    takes: Takes::Words(&["isolated", "poll"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    if matches!(facts.host().config("RCU_NOCB_CPU"), Ok(None)) {
        return proposal.absent("rcu_nocbs=", "this kernel is built without CONFIG_RCU_NOCB_CPU");
    }
    proposal.parameter_of_cpus("rcu_nocbs", "", &ask.cpus.isolated);
    if ask.value.word() == "poll" && !ask.cpus.isolated.is_empty() {
        proposal.parameter("rcu_nocb_poll", None);
    }
}
