use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-transparent-hugepage",
    about: "transparent_hugepage=: from the first program on",
    why: "The setting at run time comes when the first programs have their huge pages already; those \
          are split and merged later, under the program's lock.",
    price: "programs that would gain by huge pages and do not ask for them get none",
    risk: "needs a reboot",
    checks: &["mem.thp"],
    takes: Takes::Words(&["always", "madvise", "never"]),
    propose,
};

fn propose(_: &Facts, ask: &Ask, proposal: &mut Proposal) {
    proposal.parameter("transparent_hugepage", Some(ask.value.word().to_owned()));
}
