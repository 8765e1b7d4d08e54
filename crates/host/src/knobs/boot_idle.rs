use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-idle",
    about: "idle=: what every CPU does when it has nothing to do",
    why: "poll never sleeps, so nothing is left at any time; halt and nomwait leave out the deep states \
          that mwait enters. For single CPUs, c-state-latency does it at run time.",
    price: "poll: every CPU at full power for ever, no turbo, and a sibling thread loses half its core; halt, nomwait: as boot-max-cstate",
    risk: "needs a reboot; poll may end in thermal throttling, which is worse than any idle state",
    checks: &["cstate.boot-tokens", "cstate.idle-poll-smt"],
    takes: Takes::Words(&["poll", "halt", "nomwait"]),
    propose,
};

fn propose(_: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.parameter("idle", Some(ask.value.word().to_owned()));
}
