use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.hugepages-on-node",
    cause: Cause::Numa,
    about: "The latency CPUs' node has some of the reserved huge pages",
    why: "hugepages=N on the boot line spreads the pages evenly over the nodes; a write to \
          vm.nr_hugepages takes them where memory happens to be free. A program that is bound to \
          a node without any gets ENOMEM, one that is not bound gets remote pages.",
    cost: Cost {
        us: 0.2,
        text: "50–200 ns per miss on a remote page",
        origin: "article on determinism, taxonomy (NUMA); kernel: admin-guide/mm/hugetlbpage",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let pools = &facts.memory().pools;
    let total = |node: usize| -> u64 {
        let here = pools.iter().filter(|pool| pool.node == node);
        here.fold(0, |sum: u64, pool| sum.saturating_add(pool.total))
    };
    if pools.iter().all(|pool| pool.total == 0) {
        return Verdict::not_applicable("no huge pages are reserved (see mem.hugepages)");
    }
    let nodes = facts.cpus().nodes_of(&scope.cpus);
    let nodeless =
        |cpu: usize| facts.cpus().topology.get(&cpu).and_then(|place| place.node).is_none();
    let told = !scope.cpus.iter().any(nodeless);
    if nodes.is_empty() {
        return Verdict::unknown("the nodes of the latency CPUs could not be read");
    }
    let without: Vec<usize> = nodes.iter().copied().filter(|node| total(*node) == 0).collect();
    let Some(node) = without.first() else {
        if !told {
            return Verdict::unknown("the nodes of some latency CPUs could not be read");
        }
        return Verdict::pass("huge pages are reserved on the latency CPUs' node").evidence(
            format!("/sys/devices/system/node/node{}/hugepages", nodes[0]),
            format!("{} pages", total(nodes[0])),
        );
    };
    Verdict::fail(format!(
        "node {node}, where latency CPUs are, has none of the reserved huge \
         pages"
    ))
    .evidence(format!("/sys/devices/system/node/node{node}/hugepages"), 0)
    .fix(format!(
        "echo 512 > \
         /sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages \
         # at boot: hugepages={node}:512"
    ))
}
