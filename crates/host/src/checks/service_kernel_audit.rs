use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.kernel-audit",
    cause: Cause::Scheduler,
    about: "The kernel's auditing is off from boot",
    why: "Without audit=0 anybody privileged can switch auditing on at run time, and systemd's \
          journal daemon does so as it starts (Audit= in journald.conf). A process that is created \
          after that carries an audit context, and takes the slow way through each system call \
          once there is a rule. The thread kauditd exists unless auditing was off at boot, so its \
          absence proves it; its presence proves only that it could be on.",
    cost: Cost {
        us: 0.3,
        text: "0.1–0.5 µs per system call, once a rule is loaded",
        origin: "judgement: an allocation and a filter walk per call",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    if let Ok(None) = facts.host().config("AUDIT") {
        return Verdict::not_applicable("this kernel has no auditing (CONFIG_AUDIT)");
    }
    let tasks = &facts.tasks().all;
    let Some(all) = tasks.value() else { return Verdict::unread(tasks) };
    let kauditd = all.iter().find(|task| task.kernel && task.name == "kauditd");
    let token =
        facts.boot().value("audit").map_or("no audit=".to_owned(), |v| format!("audit={v}"));
    let verdict = match kauditd {
        None if !facts.tasks().complete() => Verdict::unknown_tasks(facts),
        None => Verdict::pass("auditing was off at boot").evidence("tasks", "no kauditd"),
        Some(task) => Verdict::warn("auditing may be switched on at any time")
            .evidence("tasks", task.label())
            .fix("audit=0 on the boot line, then reboot"),
    };
    verdict.evidence("/proc/cmdline", token)
}
