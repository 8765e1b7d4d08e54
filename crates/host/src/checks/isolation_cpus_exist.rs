use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::remedy::edit_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "isolation.cpus-exist",
    cause: Cause::Scheduler,
    about: "Every CPU that the boot line names is there and online",
    why: "A list with a number beyond the machine's CPUs makes the kernel drop the whole parameter \
          (`Housekeeping: nohz_full= or isolcpus= incorrect CPU range`), the good CPUs included: \
          isolcpus=2-5,99 isolates nothing. A CPU that is offline (nosmt, maxcpus=, a smaller \
          instance than the one the line was written for) cannot run anything. Compared with \
          /sys/devices/system/cpu/possible and online.",
    cost: Cost {
        us: 200.0,
        text: "no isolation at all: 50–500 µs per task that is placed there",
        origin: "article on determinism, taxonomy",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let boot = facts.boot();
    let requests = [
        ("isolcpus", boot.isolcpus.as_ref().map(|isolcpus| &isolcpus.request)),
        ("nohz_full", boot.nohz_full.as_ref()),
        ("rcu_nocbs", boot.rcu_nocbs.as_ref()),
        ("irqaffinity", boot.irqaffinity.as_ref()),
    ];
    let cpus = facts.cpus();
    if !cpus.known {
        return Verdict::unknown_cpus();
    }
    let mut named = CpuSet::new();
    let mut wrong = Vec::new();
    for (name, request) in requests {
        let Some(Ok(set)) = request.map(|request| &request.cpus) else { continue };
        let absent = set.minus(&cpus.possible);
        let offline = set.minus(&cpus.online).minus(&absent);
        named = named.or(set);
        if !absent.is_empty() {
            wrong.push(format!("{name}= names CPUs {absent}, which do not exist"));
        }
        if !offline.is_empty() {
            wrong.push(format!("{name}= names CPUs {offline}, which are offline"));
        }
    }
    let complaints = &facts.isolation().complaints;
    let refused = complaints.iter().find(|line| {
        line.contains("incorrect CPU range") || line.contains("contains nonexistent CPUs")
    });
    if wrong.is_empty() && refused.is_none() && named.is_empty() {
        return Verdict::not_applicable("the boot line names no CPU");
    }
    let verdict = match (wrong.is_empty(), refused) {
        (true, None) => Verdict::pass(format!("CPUs {named}, named on the boot line, are online")),
        (false, _) => Verdict::fail(wrong.join("; ")),
        (true, Some(_)) => Verdict::fail("the kernel could not use a CPU list of the boot line"),
    };
    let verdict = match refused {
        Some(line) => verdict.evidence("kernel log", line),
        None => verdict,
    };
    verdict
        .evidence("/sys/devices/system/cpu/possible", &cpus.possible)
        .evidence("/sys/devices/system/cpu/online", &cpus.online)
        .fix(edit_boot_line(facts, &format!("name only CPUs of {}", cpus.online)))
}
