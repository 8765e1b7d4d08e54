use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.systemd-cpuaffinity",
    cause: Cause::Scheduler,
    about: "Services start on housekeeping CPUs",
    why: "Every service inherits the affinity of process 1. With isolcpus= the kernel starts \
          process 1 on the other CPUs and nothing more is needed; without it, CPUAffinity= in \
          /etc/systemd/system.conf does the same. What counts is the affinity that process 1 has \
          now: a changed file takes effect after systemctl daemon-reexec, and only for services \
          that start afterwards. A service may still ask for other CPUs: sched.tasks-on-isolated \
          finds those.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per time slice of a service",
        origin: "article on determinism, taxonomy: kernel scheduler jitter",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const FILE: &str = "/etc/systemd/system.conf";
    let Some(tasks) = facts.tasks().all.value() else { return Verdict::unread(&facts.tasks().all) };
    let Some(init) = tasks.iter().find(|task| task.tid == 1) else {
        return Verdict::unknown("process 1 is not visible here");
    };
    if facts.tasks().contained() {
        return Verdict::unknown("process 1 here is that of a container, not the host's");
    }
    let touched = init.affinity.and(&scope.cpus);
    let verdict = match touched.is_empty() {
        true => Verdict::pass(format!("services start on CPUs {}", init.affinity)),
        false => Verdict::fail(format!("services start on CPUs {touched}, too")),
    };
    let verdict = verdict.evidence(format!("affinity of {}", init.label()), &init.affinity);
    let text = facts.host().read(FILE).unwrap_or_default();
    let setting = text.lines().map(str::trim).find(|line| line.starts_with("CPUAffinity="));
    let verdict = match setting {
        Some(line) => verdict.evidence(FILE, line),
        None => verdict,
    };
    verdict.fix_onto(&scope.housekeeping(facts), |keep| {
        let list = keep.to_string().replace(',', " ");
        format!("CPUAffinity={list} in {FILE}, then systemctl daemon-reexec and a reboot")
    })
}
