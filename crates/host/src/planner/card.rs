//! The network card that latency is about.

use quietcore_facts::Facts;
use quietcore_facts::nics::Nic;
use quietcore_measure::CpuSet;

use super::{Reason, Refusal};

/// A network card, and why it is the one.
pub(super) struct Card<'a> {
    pub nic: &'a Nic,
    because: String,
    source: &'static str,
}

/// The card of this name, or that of the default route, or the one with the most queues.
pub(super) fn choose<'a>(
    facts: &'a Facts,
    near: Option<&str>,
) -> Result<Option<Card<'a>>, Refusal> {
    let nics = facts.nics();
    let below = |name: &str| nics.below(name).into_iter().next();
    if let Some(name) = near {
        let because = "named to be near".to_owned();
        let known = || nics.up.iter().map(|nic| nic.name.clone()).collect();
        return match below(name) {
            Some(nic) => Ok(Some(Card { nic, because, source: "near" })),
            None => Err(Refusal::NoSuchCard { name: name.to_owned(), known: known() }),
        };
    }
    let routes = nics.default_routes.value().into_iter().flatten();
    let routed = routes.filter_map(|route| Some((route, below(route)?))).next();
    if let Some((route, nic)) = routed {
        let because = match *route == nic.name {
            true => "the default route leaves by it".to_owned(),
            false => format!("the default route leaves by {route} above it"),
        };
        return Ok(Some(Card { nic, because, source: "default routes" }));
    }
    // Of equals the first.
    let widest = nics.up.iter().rev().max_by_key(|nic| nic.rx.len());
    Ok(widest.map(|nic| {
        let because = format!("no default route, most receive queues ({})", nic.rx.len());
        Card { nic, because, source: "/sys/class/net/*/queues" }
    }))
}

/// What the card had to say in the choice of these CPUs.
pub(super) fn reason(facts: &Facts, isolated: &CpuSet, card: Option<&Card>) -> Reason {
    let cpus = facts.cpus();
    let nodes = cpus.nodes_of(&cpus.online);
    const NODES: &str = "/sys/devices/system/node/node*/cpulist";
    if let [node] = nodes[..] {
        return Reason::why(format!("all CPUs are on node {node}: near to any network card"))
            .evidence(NODES, &cpus.online);
    }
    let Some(card) = card else {
        let unread = facts.nics().unread.as_deref();
        return Reason::warning("no network card in use tells which node to prefer")
            .evidence("/sys/class/net", unread.unwrap_or("no physical interface is up"));
    };
    let Card { nic, because, source } = card;
    let here = cpus.nodes_of(isolated);
    let reason = match nic.node {
        Some(node) if here == [node] => {
            Reason::why(format!("CPUs {isolated} are on node {node} of {} ({because})", nic.name))
        }
        // That they are elsewhere is said where any split is judged.
        Some(node) => Reason::why(format!("{} ({because}) is on node {node}", nic.name)),
        None => Reason::warning(format!(
            "the firmware does not tell the node of {} ({because})",
            nic.name
        )),
    };
    let node = nic.node.map_or_else(|| "not told".to_owned(), |node| node.to_string());
    reason
        .evidence(*source, &nic.name)
        .evidence(format!("/sys/class/net/{}/device/numa_node", nic.name), node)
}
