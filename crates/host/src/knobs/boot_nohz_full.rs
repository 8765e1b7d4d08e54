use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-nohz-full",
    about: "nohz_full=: the tick stops on the isolated CPUs while one task runs",
    why: "The tick takes 1–5 µs off a busy CPU 250 or 1000 times a second. It stops where one task \
          is runnable; CPU-time timers and perf keep it on.",
    price: "each system call and interrupt there costs some 100 ns more, for its time is accounted at once",
    risk: "needs a reboot, and a kernel with CONFIG_NO_HZ_FULL",
    checks: &["isolation.nohz-full"],
    takes: Takes::Words(&["isolated"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    if matches!(facts.host().config("NO_HZ_FULL"), Ok(None)) {
        return proposal.absent("nohz_full=", "this kernel is built without CONFIG_NO_HZ_FULL");
    }
    proposal.parameter_of_cpus("nohz_full", "", &ask.cpus.isolated);
}
