use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "sched-rt-runtime",
    about: "Microseconds of each period that real-time threads may use; -1 for no limit",
    why: "By default a SCHED_FIFO thread that spins is stopped for 50 ms of every second, even \
          if nothing else wants its CPU.",
    price: "a real-time thread that never sleeps locks its CPU: nothing else runs there, not \
          even the kernel's own threads",
    risk: "on a host without isolated CPUs one runaway SCHED_FIFO thread can make it \
          unreachable; since Linux 6.12 the limit counts only with CONFIG_RT_GROUP_SCHED (see \
          fair-server)",
    checks: &["sched.rt-throttling"],
    takes: Takes::Number { min: -1, max: 1_000_000, unit: "µs" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.word(facts, "/proc/sys/kernel/sched_rt_runtime_us", ask.value);
}
