//! The cores of a host.

use quietcore_facts::Facts;
use quietcore_measure::CpuSet;

use super::Refusal;

/// A core: CPUs that share execution units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Core {
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// NUMA node, if known.
    pub node: Option<usize>,
    /// CPUs that share its last-level cache; empty if unknown.
    pub llc: CpuSet,
}

/// All cores, by their lowest CPU.
pub(super) fn of(facts: &Facts) -> Result<Vec<Core>, Refusal> {
    let cpus = facts.cpus();
    if !cpus.known {
        return Err(Refusal::Unknown);
    }
    let mut cores: Vec<Core> = Vec::new();
    for place in cpus.topology.values() {
        let siblings = place.siblings.and(&cpus.online);
        // One that names another as its sibling shares its core, whatever the other says.
        let (same, mut others): (Vec<Core>, Vec<Core>) =
            cores.into_iter().partition(|core| core.cpus.intersects(&siblings));
        let all = same.iter().fold(siblings, |all, core| all.or(&core.cpus));
        let first = same.into_iter().next();
        others.push(Core {
            node: first.as_ref().map_or(place.node, |core| core.node),
            llc: first.map_or_else(|| place.llc.clone(), |core| core.llc),
            cpus: all,
        });
        cores = others;
    }
    cores.sort_by_key(|core| core.cpus.lowest());
    Ok(cores)
}
