use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::Daemons;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.numad",
    cause: Cause::Numa,
    about: "numad does not move processes and their memory",
    why: "numad watches processes with much memory or CPU time, which an engine is, and moves them \
          and their pages to the node it thinks best: threads change CPU by sched_setaffinity, \
          overriding the pinning, and while a page is copied its readers wait for it.",
    cost: Cost {
        us: 10.0,
        text: "microseconds per page, for as long as it takes to copy gigabytes, and rarely",
        origin: "numad(8) for the mechanism; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    Daemons::of(facts, &["numad.service"]).unwanted(scope, "numad does not run", |_| {
        Verdict::fail_if(scope.is_declared(), "numad may move processes and their memory")
    })
}
