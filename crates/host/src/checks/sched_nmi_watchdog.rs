use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.nmi-watchdog",
    cause: Cause::Irq,
    about: "The NMI watchdog keeps off CPUs meant for latency",
    why: "The hard-lockup watchdog has a hardware counter raise a non-maskable interrupt about \
          every ten seconds of busy time on each CPU of watchdog_cpumask, and keeps that counter \
          from perf. Nothing can defer an NMI. CPUs of nohz_full= are left out by default. \
          Guests without a performance counter do not have it. (kernel: \
          admin-guide/lockup-watchdogs.rst)",
    cost: Cost {
        us: 5.0,
        text: "some µs per interrupt, one per 10 s of busy time",
        origin: "article on isolation, daemons to kill; the size is a judgement",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/kernel/nmi_watchdog";
    const MASK: &str = "/proc/sys/kernel/watchdog_cpumask";
    let host = facts.host();
    match (host.number(SOURCE), host.number("/proc/sys/kernel/watchdog")) {
        (Ok(0), _) => return Verdict::pass("the NMI watchdog is off").evidence(SOURCE, 0),
        (_, Ok(0)) => {
            return Verdict::pass("the watchdogs are off").evidence("/proc/sys/kernel/watchdog", 0);
        }
        (Err(error), _) => return Verdict::unanswered(&error),
        _ => {}
    }
    let mask = match host.cpu_list(MASK) {
        Ok(mask) => mask,
        Err(error) => return Verdict::unanswered(&error),
    };
    let touched = mask.and(&scope.cpus);
    let verdict = match touched.is_empty() {
        true => Verdict::pass("the NMI watchdog keeps to housekeeping CPUs"),
        false => Verdict::fail(format!("the NMI watchdog interrupts CPUs {touched}")),
    };
    verdict
        .evidence(SOURCE, 1)
        .evidence(MASK, &mask)
        .fix("sysctl -w kernel.nmi_watchdog=0   # and nmi_watchdog=0 on the boot line")
}
