//! What may disturb threads where they are placed.

use quietcore_facts::Facts;
use quietcore_measure::{CpuSet, Evidence, Reading};

use super::{Placement, Who};

/// Something that may disturb a thread where it is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caution {
    /// The thread, as `btc/812`.
    pub thread: String,
    /// What, in one line.
    pub text: String,
    /// What it stands on.
    pub evidence: Evidence,
}

/// What may disturb the threads that were named; those that `*` means are placed to be out of the
/// way.
pub fn cautions(facts: &Facts, placements: &[Placement]) -> Vec<Caution> {
    let named = placements.iter().filter(|one| one.who != Who::Others);
    named
        .flat_map(|one| {
            let found =
                [shared(facts, one), siblings(facts, one, placements), interrupts(facts, one)];
            found.into_iter().flatten().map(|(text, source, value)| Caution {
                thread: one.task.label(),
                text,
                evidence: Evidence { source: source.to_owned(), value },
            })
        })
        .collect()
}

type Found = Option<(String, &'static str, String)>;

fn shared(facts: &Facts, one: &Placement) -> Found {
    const SOURCE: &str = "/sys/devices/system/cpu/isolated";
    let isolated = facts.isolation().domain.clone();
    let open = one.cpus.minus(&isolated);
    if open.is_empty() {
        return None;
    }
    match &facts.cpus().isolated {
        Reading::Measured(_) => {
            let text = format!("other tasks may run on CPUs {open}, which are not isolated");
            let none = if isolated.is_empty() { "none" } else { "" };
            Some((text, SOURCE, format!("{isolated}{none}")))
        }
        unread => {
            let text = format!("whether CPUs {open} are isolated is not known");
            Some((text, SOURCE, unread.why().to_owned()))
        }
    }
}

fn siblings(facts: &Facts, one: &Placement, all: &[Placement]) -> Found {
    let topology = &facts.cpus().topology;
    let places = one.cpus.iter().filter_map(|cpu| topology.get(&cpu));
    let beside = places.fold(CpuSet::new(), |set, place| set.or(&place.siblings)).minus(&one.cpus);
    let others = all.iter().filter(|other| other.task.tid != one.task.tid);
    let others: Vec<&Placement> = others.filter(|other| other.cpus.intersects(&beside)).collect();
    let first = others.first()?;
    let more = match others.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let text = format!(
        "{}{more} may run on CPUs {}, which share the core",
        first.task.label(),
        first.cpus.and(&beside)
    );
    let source = "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list";
    Some((text, source, beside.or(&one.cpus).to_string()))
}

fn interrupts(facts: &Facts, one: &Placement) -> Found {
    const SHOWN: usize = 3;
    let irqs = facts.irqs();
    if !irqs.known() {
        let text = "which interrupts may fire there is not known".to_owned();
        return Some((text, "/proc/interrupts", "could not be read".to_owned()));
    }
    let fires = |cpus: Option<&CpuSet>| cpus.is_none_or(|cpus| cpus.intersects(&one.cpus));
    let labels: Vec<String> =
        irqs.lines.iter().filter(|irq| fires(irq.targets())).map(|irq| irq.label()).collect();
    if labels.is_empty() {
        return None;
    }
    let text = format!("{} interrupts may fire on CPUs {}", labels.len(), one.cpus);
    let more = if labels.len() > SHOWN { ", …" } else { "" };
    let shown = labels.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    Some((text, "/proc/irq/*/effective_affinity_list", format!("{shown}{more}")))
}
