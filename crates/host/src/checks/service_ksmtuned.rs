use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::Daemons;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.ksmtuned",
    cause: Cause::Memory,
    about: "Nothing switches the merging of memory pages on by itself",
    why: "ksmtuned, which comes with virtualisation hosts, starts the kernel's page merging (KSM) \
          when memory runs short: ksmd then reads all memory that was marked for it, write-protects \
          equal pages, and each later write to one takes a fault and a copy. KSM off now says \
          nothing about tomorrow while it runs.",
    cost: Cost {
        us: 5.0,
        text: "1–10 µs per write to a merged page, and TLB interrupts for each merge",
        origin: "Documentation/admin-guide/mm/ksm.rst for the mechanism; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    Daemons::of(facts, &["ksmtuned.service"]).unwanted(scope, "ksmtuned does not run", |_| {
        Verdict::warn("ksmtuned merges memory pages when memory runs short")
    })
}
