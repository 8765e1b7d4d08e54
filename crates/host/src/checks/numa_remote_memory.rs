use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "numa.remote-memory",
    cause: Cause::Numa,
    about: "Memory that was wanted on the latency CPUs' node was had there",
    why: "When a node is full (page cache counts), the kernel takes the page from another node \
          without a word: numa_foreign of the node that was wanted counts it. From then on every \
          miss on that page crosses the sockets. The counters are of all programs since boot; \
          where a program's own pages lie, audit --pid tells.",
    cost: Cost {
        us: 0.2,
        text: "50–200 ns per miss on such a page",
        origin: "article on determinism, taxonomy; kernel: admin-guide/numastat",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

/// A share below this is what any busy node shows.
const SHARE: f64 = 0.01;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let numastat = &facts.memory().numastat;
    if numastat.len() == 1 {
        return Verdict::not_applicable("there is one node only");
    }
    let mut verdict = None;
    for node in facts.cpus().nodes_of(&scope.cpus) {
        let count = |name: &str| numastat.get(&node)?.get(name).copied();
        let (Some(hit), Some(foreign)) = (count("numa_hit"), count("numa_foreign")) else {
            continue;
        };
        let wanted = hit.saturating_add(foreign);
        if wanted == 0 {
            return Verdict::unknown(
                "the kernel does not count allocations by node \
                 (vm.numa_stat=0)",
            );
        }
        let share = foreign as f64 / wanted as f64;
        let source = format!("/sys/devices/system/node/node{node}/numastat");
        let value = format!("numa_foreign {foreign} of {wanted} pages wanted here");
        if share > SHARE {
            return Verdict::warn(format!(
                "{:.0} % of the memory wanted on node {node} came from \
                 another",
                share * 100.0
            ))
            .evidence(source, value)
            .fix(format!(
                "bind the program's memory (numactl --membind={node}, or quietcore \
                 exec --numa {node}) and keep the page cache off the node"
            ));
        }
        verdict = Some(
            Verdict::pass(format!("memory wanted on node {node} was had there"))
                .evidence(source, value),
        );
    }
    verdict.unwrap_or_else(|| {
        Verdict::unknown(
            "numastat of the latency CPUs' nodes could not be \
             read",
        )
    })
}
