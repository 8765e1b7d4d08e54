use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::Daemons;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.auditd",
    cause: Cause::Scheduler,
    about: "System calls are not audited",
    why: "auditd switches the kernel's auditing on and loads rules: from then on every system call \
          of every process takes the slow way in and out of the kernel, and a matching one builds \
          a record, on the CPU of the caller. When the backlog is full, callers wait. Stopping the \
          daemon leaves the kernel's side on for processes that have lived with it; audit=0 on the \
          boot line ends both (service.kernel-audit). Where the law asks for auditing, waive this \
          and keep rules off the engine's user.",
    cost: Cost {
        us: 2.0,
        text: "0.1–0.5 µs per system call, some µs per record, up to 60 s of waiting with a full backlog",
        origin: "auditctl(8), --backlog_wait_time, for the wait; judgement for the rest; named by the article on isolation",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    Daemons::of(facts, &["auditd.service"]).unwanted(scope, "auditd does not run", |_| {
        Verdict::fail_if(scope.is_declared(), "auditd runs: every system call is slower")
    })
}
