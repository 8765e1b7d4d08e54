use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "smt.shared-core",
    cause: Cause::Scheduler,
    about: "No two pinned threads share a core",
    why: "Numbering hides which CPUs are siblings (4 and 44 on one host, 4 and 5 on another). Two \
          threads that are pinned to the two halves of one core slow each other down as long as \
          both run. Counted are threads of programs that may run on exactly one of the latency \
          CPUs, whether or not they ran just now.",
    cost: Cost {
        us: 5.0,
        text: "up to half of the core's throughput while both run",
        origin: "kernel: admin-guide/hw-vuln/core-scheduling (SMT siblings share the core); size: \
                 judgement",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    if !facts.cpus().known {
        return Verdict::unknown_cpus();
    }
    if !facts.cpus().has_smt() {
        return Verdict::pass("no core runs two threads");
    }
    let tasks = facts.tasks();
    if tasks.all.value().is_none() {
        return Verdict::unread(&tasks.all);
    }
    // By core (its lowest CPU), then by CPU.
    let mut cores: BTreeMap<usize, BTreeMap<usize, Vec<String>>> = BTreeMap::new();
    for task in tasks.confined_to(&scope.cpus).filter(|task| task.affinity.len() == 1) {
        let Some(cpu) = task.affinity.lowest() else { continue };
        let Some(place) = facts.cpus().topology.get(&cpu) else { continue };
        let core = place.siblings.lowest().unwrap_or(cpu);
        cores.entry(core).or_default().entry(cpu).or_default().push(task.label());
    }
    let shared: Vec<_> = cores.values().filter(|cpus| cpus.len() > 1).collect();
    if shared.is_empty() && !tasks.complete() {
        return Verdict::unknown_tasks(facts);
    }
    if shared.is_empty() {
        return Verdict::pass(format!(
            "the pinned threads on CPUs {} have their cores to themselves",
            scope.cpus
        ));
    }
    let verdict = Verdict::fail(format!(
        "pinned threads share {} core{}",
        shared.len(),
        if shared.len() == 1 { "" } else { "s" }
    ));
    let verdict =
        shared.iter().flat_map(|cpus| cpus.iter()).fold(verdict, |verdict, (cpu, threads)| {
            verdict.evidence(format!("affinity {cpu}"), threads.join(", "))
        });
    verdict.fix(
        "taskset -pc CPU TID onto a core whose sibling is empty (lscpu -e shows which \
         belong together)",
    )
}
