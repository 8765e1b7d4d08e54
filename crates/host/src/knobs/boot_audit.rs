use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-audit",
    about: "audit=0: the kernel's auditing cannot be switched on",
    why: "Once auditing was on, each new process takes the slow way through its system calls where \
          there is a rule; the journal daemon switches it on as it starts.",
    price: "no audit trail: some rules of compliance ask for one",
    risk: "needs a reboot; auditd does not start",
    checks: &["service.kernel-audit"],
    takes: Takes::Words(&["off"]),
    propose,
};

fn propose(facts: &Facts, _: &Ask, proposal: &mut Proposal) {
    if matches!(facts.host().config("AUDIT"), Ok(None)) {
        return proposal.absent("audit=", "this kernel is built without CONFIG_AUDIT");
    }
    proposal.parameter("audit", Some("0".to_owned()));
}
