use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-nosoftlockup",
    about: "nosoftlockup: the soft-lockup watchdog is off from the start",
    why: "The watchdog wakes each CPU every 4 s to see that it still schedules. The knob watchdog keeps \
          it off the isolated CPUs at run time; this takes it away altogether.",
    price: "a CPU that hangs in the kernel is not reported, on any CPU",
    risk: "needs a reboot",
    checks: &["sched.watchdog"],
    takes: Takes::Words(&["on"]),
    propose,
};

fn propose(_: &Facts, _: &Ask, proposal: &mut Proposal) {
    proposal.parameter("nosoftlockup", None);
}
