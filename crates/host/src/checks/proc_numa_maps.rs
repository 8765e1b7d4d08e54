use std::collections::BTreeSet;

use quietcore_facts::Facts;
use quietcore_measure::{Cause, Reading};

use crate::subject::Subject;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.numa-maps",
    cause: Cause::Numa,
    about: "The process' memory lies on the node of the CPUs that use it",
    why: "A page lies where the CPU was that touched it first, and stays there when the thread is \
          moved: a program that starts on one node and is pinned to the other afterwards reads \
          all its memory across the socket. /proc/P/numa_maps tells the node of every page; \
          judged is what the process made itself (not the pages of files), against the nodes of \
          the CPUs that its critical threads may use, or all its threads if none is critical. \
          Up to 5 % elsewhere is normal. More than 512 MiB in small pages are not walked: that \
          would hold the process up.",
    cost: Cost {
        us: 0.1,
        text: "50–200 ns per cache miss that crosses the socket",
        origin: "article on determinism, taxonomy; the limit of 5 %: judgement",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

const LIMIT: f64 = 0.05;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let pages = match &subject.process.nodes {
        Reading::Measured(pages) => pages,
        // No numa_maps: a kernel without NUMA.
        other => return Verdict::unread(other),
    };
    let total = pages.values().fold(0_u64, |sum, kib| sum.saturating_add(*kib));
    if total == 0 {
        return Verdict::unknown("the process has no memory of its own");
    }
    let mut threads = subject.critical();
    if threads.is_empty() {
        threads = subject.threads.iter().collect();
    }
    let places = &facts.cpus().topology;
    let nodes: BTreeSet<usize> = threads
        .iter()
        .flat_map(|thread| thread.task.affinity.iter())
        .filter_map(|cpu| places.get(&cpu)?.node)
        .collect();
    let list: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let list = list.join(",");
    let source = format!("/proc/{}/numa_maps", facts.pid().unwrap_or_default());
    let held = |verdict: Verdict| {
        pages.iter().fold(verdict, |verdict, (node, kib)| {
            verdict.evidence(&source, format!("{kib} KiB on node {node}"))
        })
    };
    if nodes.len() != 1 {
        return held(Verdict::fail_if(
            scope.is_declared(),
            format!("its threads may run on nodes {list}: memory is far from some of them"),
        ))
        .fix("numactl --cpunodebind=0 --membind=0 PROGRAM   # the node of its CPUs and its network card");
    }
    let far = pages.iter().filter(|(node, _)| !nodes.contains(node));
    let far = far.fold(0_u64, |sum, (_, kib)| sum.saturating_add(*kib));
    let share = far as f64 / total as f64;
    match share > LIMIT {
        true => held(Verdict::fail_if(
            scope.is_declared(),
            format!("{:.0} % of its memory is not on node {list}, where its threads run", share * 100.0),
        ))
        .fix(format!(
            "numactl --cpunodebind={list} --membind={list} PROGRAM   # or now: migratepages {} all {list}",
            facts.pid().unwrap_or_default()
        )),
        false => held(Verdict::pass(format!(
            "{:.0} % of its memory is on node {list}, where its threads run",
            (1.0 - share) * 100.0
        ))),
    }
}
