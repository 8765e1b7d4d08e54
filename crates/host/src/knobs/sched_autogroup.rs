use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "sched-autogroup",
    about: "Whether CPU time is shared out between sessions instead of threads",
    why: "With autogroups the nice value of a thread counts only within its own session: two \
          threads that share a CPU are weighed by their terminals.",
    price: "a desktop with a busy build in a terminal feels slower",
    risk: "",
    checks: &["sched.autogroup"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/kernel/sched_autogroup_enabled", 0);
}
