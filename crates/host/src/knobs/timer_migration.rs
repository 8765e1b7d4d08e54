use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "timer-migration",
    about: "Whether timers of idle CPUs are handed to busy ones",
    why: "A timer that an idle CPU arms is given to a busy one nearby, and a CPU on which a \
          thread spins is always busy: it runs the callbacks of others.",
    price: "idle CPUs wake up for their own timers: some watts",
    risk: "",
    checks: &["sched.timer-migration"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/kernel/timer_migration", 0);
}
