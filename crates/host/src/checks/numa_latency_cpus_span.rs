use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "numa.latency-cpus-span",
    cause: Cause::Numa,
    about: "The latency CPUs are on one node",
    why: "Threads that hand work to each other across sockets pay for every cache line that \
          travels, and one of them is far from the network card. Latency CPUs on two nodes are \
          right only for two programs that have nothing to do with each other.",
    cost: Cost {
        us: 0.2,
        text: "50–200 ns per miss that crosses the sockets",
        origin: "article on determinism, taxonomy",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let nodes = facts.cpus().nodes_of(&scope.cpus);
    let spoken = nodes.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
    let nodeless =
        |cpu: usize| facts.cpus().topology.get(&cpu).and_then(|place| place.node).is_none();
    match nodes.len() {
        0 | 1 if scope.cpus.iter().any(nodeless) => {
            Verdict::unknown("the nodes of the latency CPUs could not be read")
        }
        0 | 1 => Verdict::pass(format!("CPUs {} are on node {spoken}", scope.cpus)),
        _ => {
            let of = |node: &usize| {
                let topology = &facts.cpus().topology;
                let here = |cpu: &usize| topology.get(cpu).is_some_and(|p| p.node == Some(*node));
                scope.cpus.iter().filter(here).collect::<quietcore_measure::CpuSet>()
            };
            let verdict = Verdict::warn(format!("CPUs {} are on nodes {spoken}", scope.cpus));
            nodes
                .iter()
                .fold(verdict, |verdict, node| {
                    verdict
                        .evidence(format!("/sys/devices/system/node/node{node}/cpulist"), of(node))
                })
                .fix(
                    "isolate CPUs of the network card's node only (cat \
                     /sys/class/net/*/device/numa_node)",
                )
        }
    }
}
