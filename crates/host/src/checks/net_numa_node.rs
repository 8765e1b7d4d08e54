use quietcore_facts::Facts;
use quietcore_facts::nics::Nic;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.numa-node",
    cause: Cause::Numa,
    about: "The network card hangs on the node of the CPUs meant for latency",
    why: "A card writes packets into the cache of the socket it is plugged into. CPUs of another \
          socket fetch descriptor and packet across the link between the sockets, and their \
          doorbell writes cross it as well. The node is the firmware's word (numa_node); where it \
          says -1 nothing is known. All cards that are up are judged: one for management on the \
          wrong node does no harm and may be waived.",
    cost: Cost {
        us: 0.5,
        text: "50–200 ns per cache miss, several misses per packet",
        origin: "article on determinism, taxonomy (NUMA cross-socket access)",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let nics = match interfaces::in_use(facts) {
        Ok(nics) => nics,
        Err(verdict) => return verdict,
    };
    let cpus = facts.cpus();
    match cpus.nodes_of(&cpus.online).len() {
        0 => return Verdict::unknown("the nodes of the CPUs could not be read"),
        1 => return Verdict::not_applicable("there is only one NUMA node"),
        _ => {}
    }
    let wanted = cpus.nodes_of(&scope.cpus);
    let elsewhere =
        |nic: &&Nic| nic.node.is_some_and(|node| wanted.iter().any(|want| *want != node));
    let remote: Vec<&Nic> = nics.iter().filter(elsewhere).collect();
    let untold = nics.iter().find(|nic| nic.node.is_none());
    let list =
        |nodes: &[usize]| nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (want, names) = (list(&wanted), interfaces::names(remote.clone()));
    let verdict = match (remote.is_empty(), untold) {
        (false, _) => {
            let title = format!("CPUs {} are on node {want}, {names} is not", scope.cpus);
            let somewhere = remote.iter().all(|n| n.node.is_some_and(|n| wanted.contains(&n)));
            // Some of the CPUs are near: then it depends on which one is used.
            if somewhere { Verdict::warn(title) } else { Verdict::fail(title) }
        }
        (_, Some(nic)) => {
            return Verdict::unknown(format!(
                "the firmware does not tell the node of {}",
                nic.name
            ));
        }
        _ => Verdict::pass(format!("the network cards are on node {want} of CPUs {}", scope.cpus)),
    };
    let target = remote.first().and_then(|nic| nic.node).unwrap_or_default();
    nics.iter()
        .fold(verdict, |verdict, nic| {
            let node = nic.node.map_or("not told".to_owned(), |node| node.to_string());
            verdict.evidence(format!("/sys/class/net/{}/device/numa_node", nic.name), node)
        })
        .fix(format!(
            "isolate CPUs of node {target} (/sys/devices/system/node/node{target}/cpulist), or move the card to a slot of node {want}"
        ))
}
