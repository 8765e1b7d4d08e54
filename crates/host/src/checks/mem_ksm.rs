use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.ksm",
    cause: Cause::Memory,
    about: "No thread looks for equal pages to merge",
    why: "ksmd compares pages of programs that offer theirs (virtual machines, containers that are \
          told to) and makes one of two equal ones. A merged page is read-only: the next write \
          faults and copies, and every merge flushes the TLBs of the CPUs concerned.",
    cost: Cost {
        us: 5.0,
        text: "2–10 µs for a write to a merged page, and a busy kernel thread",
        origin: "kernel: admin-guide/mm/ksm; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/kernel/mm/ksm/run";
    let host = facts.host();
    match host.number(SOURCE) {
        Ok(1) => {
            let merged = host.number("/sys/kernel/mm/ksm/pages_sharing");
            Verdict::fail_if(scope.is_declared(), "ksmd merges equal pages")
                .evidence(SOURCE, 1)
                .evidence(
                    "/sys/kernel/mm/ksm/pages_sharing",
                    merged.map_or("unknown".to_owned(), |n| n.to_string()),
                )
                .fix(format!(
                    "echo 2 > {SOURCE}   # stops it and takes merged pages apart; then \
                     disable ksmtuned"
                ))
        }
        Ok(run) => Verdict::pass("equal pages are not merged").evidence(SOURCE, run),
        Err(error) => Verdict::unanswered(&error),
    }
}
