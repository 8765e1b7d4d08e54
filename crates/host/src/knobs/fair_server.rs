use quietcore_facts::Facts;
use quietcore_sys::Trouble;

use super::{Ask, Knob, Proposal, Takes};

const FOLDER: &str = "/sys/kernel/debug/sched/fair_server";

pub const KNOB: Knob = Knob {
    id: "fair-server",
    about: "Microseconds of each second for ordinary threads on isolated CPUs that real-time \
          threads keep busy",
    why: "Since Linux 6.12 a deadline server takes 50 ms of each second from a real-time thread \
          that spins while an ordinary thread, a kernel worker is enough, waits on its CPU.",
    price: "ordinary threads on those CPUs, the kernel's own among them, may wait for ever",
    risk: "the kernel itself warns that a CPU without a fair server may starve until the system \
          hangs",
    checks: &["sched.fair-server"],
    takes: Takes::Number { min: 0, max: 950_000, unit: "µs" },
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    if facts.kernel().version() < (6, 12) {
        return proposal.absent(FOLDER, "there is none before Linux 6.12");
    }
    if matches!(facts.host().list(FOLDER), Err(error) if error.trouble == Trouble::Missing) {
        return proposal.absent(FOLDER, "debugfs is not mounted, or locked down");
    }
    let ns = ask.value.number() * 1000;
    for cpu in ask.cpus.isolated.iter() {
        proposal.word(facts, format!("{FOLDER}/cpu{cpu}/runtime"), ns);
        proposal.optional();
    }
}
