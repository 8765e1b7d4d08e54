use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "numa.balancing",
    cause: Cause::Numa,
    about: "The kernel does not move memory between nodes by itself",
    why: "Automatic NUMA balancing takes the mapping of a task's pages away now and then, to see \
          from which node they are touched: the next access faults, and pages that look misplaced \
          are copied while the task waits. For threads that are pinned with their memory it only \
          costs. The kernel switches it on by itself on machines with more than one node.",
    cost: Cost {
        us: 20.0,
        text: "a page fault of 1–2 µs per sampled page, tens of µs per page that moves, and TLB \
               shootdowns",
        origin: "kernel: admin-guide/sysctl/kernel (numa_balancing); size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/kernel/numa_balancing";
    let nodes = match facts.host().list("/sys/devices/system/node") {
        Ok(nodes) => nodes,
        Err(error) => return Verdict::unanswered(&error),
    };
    let is_node =
        |name: &&String| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
    if nodes.iter().filter(is_node).count() == 1 {
        return Verdict::not_applicable("there is one node only");
    }
    match facts.host().number(SOURCE) {
        Ok(0) => Verdict::pass("the kernel leaves memory where it is").evidence(SOURCE, 0),
        Ok(mode) => Verdict::fail_if(
            scope.is_declared(),
            "the kernel moves memory between nodes \
             by itself",
        )
        .evidence(SOURCE, mode)
        .fix(
            "sysctl -w kernel.numa_balancing=0   # lasting: echo kernel.numa_balancing=0 > \
             /etc/sysctl.d/60-latency.conf",
        ),
        Err(error) => Verdict::unanswered(&error),
    }
}
