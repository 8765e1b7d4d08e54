//! Judging a split, whoever made it.

use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::{CpuSet, Reading};

use super::card::{self, Card};
use super::cores::{self, Core};
use super::{KEPT_SHARE, Reason, Refusal};

const NODES: &str = "/sys/devices/system/node/node*/cpulist";
const CACHES: &str = "/sys/devices/system/cpu/cpu*/cache/index3/shared_cpu_list";

/// Judges a split that the user made; `force` lets CPU 0 be isolated.
///
/// # Errors
/// Every [`Refusal`] that applies: CPUs that are not there, no CPU left for everything else, CPU 0,
/// cores that are split.
pub fn examine(facts: &Facts, isolated: &CpuSet, force: bool) -> Result<Vec<Reason>, Vec<Refusal>> {
    let cores = cores::of(facts).map_err(|refusal| vec![refusal])?;
    let refusals = refusals(facts, &cores, isolated, force);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let card = card::choose(facts, None).map_err(|refusal| vec![refusal])?;
    Ok(weigh(facts, &cores, isolated, card.as_ref()))
}

fn refusals(facts: &Facts, cores: &[Core], isolated: &CpuSet, force: bool) -> Vec<Refusal> {
    let cpus = facts.cpus();
    let online = cpus.online.clone();
    if isolated.is_empty() {
        return vec![Refusal::Nothing { online }];
    }
    let mut found = Vec::new();
    let missing = isolated.minus(&cpus.possible).minus(&online);
    let offline = isolated.minus(&online).minus(&missing);
    if !missing.is_empty() {
        found.push(Refusal::Missing { cpus: missing, online: online.clone() });
    }
    if !offline.is_empty() {
        found.push(Refusal::Offline { cpus: offline, online: online.clone() });
    }
    let named = isolated.and(&online);
    let first = cores.first().map(|core| core.cpus.clone()).unwrap_or_default();
    if online.is_subset(&named) {
        found.push(Refusal::NoHousekeeping { online, keep: first });
        return found;
    }
    if named.contains(0) && !force {
        found.push(Refusal::FirstCpu { rest: whole(cores, &named).minus(&first) });
    }
    let split =
        cores.iter().filter(|core| core.cpus.intersects(&named) && !core.cpus.is_subset(&named));
    let pairs: Vec<_> =
        split.map(|core| (core.cpus.and(&named), core.cpus.minus(&named))).collect();
    if !pairs.is_empty() {
        let all = whole(cores, &named);
        let all = if force { all } else { all.minus(&first) };
        let within = pairs.iter().fold(named, |rest, (inside, _)| rest.minus(inside));
        // Where whole cores would be all cores, those that were named whole.
        let whole = if all.len() < online.len() { all } else { within };
        found.push(Refusal::SplitCores { pairs, whole });
    }
    found
}

/// The CPUs of every core that has one of these.
fn whole(cores: &[Core], cpus: &CpuSet) -> CpuSet {
    let touched = cores.iter().filter(|core| core.cpus.intersects(cpus));
    touched.fold(CpuSet::new(), |all, core| all.or(&core.cpus))
}

/// What is to be said of a split that is not refused.
pub(super) fn weigh(
    facts: &Facts,
    cores: &[Core],
    isolated: &CpuSet,
    card: Option<&Card>,
) -> Vec<Reason> {
    let mut found = Vec::new();
    if isolated.contains(0) {
        found.push(Reason::warning(
            "CPU 0 is isolated: timekeeping and interrupts that cannot leave it stay",
        ));
    }
    found.extend(share(cores, isolated));
    found.extend(slower(facts, isolated));
    found.extend(nodes(facts, isolated, card));
    found.extend(caches(cores, isolated));
    found
}

fn share(cores: &[Core], isolated: &CpuSet) -> Option<Reason> {
    let taken = cores.iter().filter(|core| core.cpus.intersects(isolated)).count();
    let kept = cores.len() - taken;
    let text = format!(
        "{kept} cores do everything else for {taken} isolated ones: keep one in {KEPT_SHARE}"
    );
    (kept * (KEPT_SHARE - 1) < taken)
        .then(|| Reason::warning(text).evidence("cores isolated, kept", format!("{taken}, {kept}")))
}

fn slower(facts: &Facts, isolated: &CpuSet) -> Option<Reason> {
    let Reading::Measured(slower) = &facts.cpus().slower else { return None };
    let named = slower.cpus.and(isolated);
    let text = format!("CPUs {named} are slower cores: isolate the fast ones");
    (!named.is_empty()).then(|| Reason::warning(text).evidence(&slower.source, &slower.cpus))
}

fn nodes(facts: &Facts, isolated: &CpuSet, card: Option<&Card>) -> Vec<Reason> {
    let cpus = facts.cpus();
    let nodes = cpus.nodes_of(isolated);
    let spoken =
        |nodes: &[usize]| nodes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let kept = cpus.nodes_of(&cpus.online.minus(isolated));
    let mut found = Vec::new();
    if nodes.is_empty() {
        let text = "the node of no isolated CPU could be read";
        found.push(Reason::warning(text).evidence(NODES, "not there"));
    }
    if nodes.len() > 1 {
        found.push(
            Reason::warning(format!(
                "the isolated CPUs are on nodes {}: threads that hand work to each other belong \
                 on one",
                spoken(&nodes)
            ))
            .evidence(NODES, isolated),
        );
    }
    let bare: Vec<usize> = nodes.iter().copied().filter(|node| !kept.contains(node)).collect();
    if !bare.is_empty() {
        found.push(
            Reason::warning(format!(
                "no CPU of node {} is kept: its kernel threads and its devices' interrupts must \
                 run on node {}",
                spoken(&bare),
                spoken(&kept)
            ))
            .evidence(NODES, isolated),
        );
    }
    let nic = card.map(|card| card.nic);
    let far = nic
        .and_then(|nic| Some((nic, nic.node?)))
        .filter(|(_, node)| nodes.iter().any(|other| other != node));
    found.extend(far.map(|(nic, node)| {
        let away: CpuSet = isolated
            .iter()
            .filter(|cpu| !cpus.nodes_of(&CpuSet::from_iter([*cpu])).contains(&node))
            .collect();
        Reason::warning(format!("CPUs {away} are not on node {node}, where {} is", nic.name))
            .evidence(format!("/sys/class/net/{}/device/numa_node", nic.name), node)
    }));
    found
}

/// Which isolated CPUs share a cache, and with whom.
fn caches(cores: &[Core], isolated: &CpuSet) -> Option<Reason> {
    let mut caches: BTreeMap<&CpuSet, CpuSet> = BTreeMap::new();
    if cores.iter().any(|core| core.llc.is_empty()) {
        let text = "which CPUs share a last-level cache is not known";
        return Some(Reason::warning(text).evidence(CACHES, "not there"));
    }
    for core in cores.iter().filter(|core| core.cpus.intersects(isolated)) {
        let inside = caches.entry(&core.llc).or_default();
        *inside = inside.or(&core.cpus.and(isolated));
    }
    let shared = caches.keys().any(|llc| !llc.is_subset(isolated));
    let beside = if shared { ", in part with the CPUs that are kept" } else { "" };
    let groups: Vec<String> = caches.values().map(CpuSet::to_string).collect();
    let reason = match &groups[..] {
        [] => return None,
        [one] => Reason::why(format!("CPUs {one} share one last-level cache{beside}")),
        many => Reason::why(format!(
            "the isolated CPUs are in {} last-level caches ({}){beside}: threads that hand work \
             to each other belong in one",
            many.len(),
            many.join(" | ")
        )),
    };
    let read: Vec<String> = caches.keys().map(|llc| llc.to_string()).collect();
    Some(reason.evidence(CACHES, read.join(" | ")))
}
