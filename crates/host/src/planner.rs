//! Which CPUs to isolate and which to keep for everything else, and why.
//!
//! [`propose`] makes a split of a host's CPUs, [`examine`] judges one that the user made. Both are
//! pure: what they say follows from the facts alone, and every reason names the fact it stands on.

mod card;
mod cores;
mod examine;
mod refusal;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::{CpuSet, Evidence, Reading};

pub use examine::examine;
pub use refusal::Refusal;

use card::Card;
use cores::Core;

/// One core in this many is kept for everything else.
const KEPT_SHARE: usize = 8;
/// Machines of up to this many CPUs keep half of their cores.
const SMALL: usize = 4;

/// What the user wants of a split.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// How many cores to isolate; as many as is sound on one node if not said.
    pub isolate: Option<usize>,
    /// The network interface that the isolated CPUs are to be near.
    pub near: Option<String>,
    /// Keep a single core, where the rule would keep more.
    pub force: bool,
}

/// The CPUs of a host, split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// For latency.
    pub isolated: CpuSet,
    /// For everything else.
    pub housekeeping: CpuSet,
    /// Why so, and what is to be said against it.
    pub why: Vec<Reason>,
}

/// Something that speaks for or against a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Whether it speaks against.
    pub is_warning: bool,
    /// In one line, naming this host's CPUs.
    pub text: String,
    /// What it stands on.
    pub evidence: Vec<Evidence>,
}

impl Reason {
    fn why(text: impl Into<String>) -> Self {
        Self { is_warning: false, text: text.into(), evidence: Vec::new() }
    }

    fn warning(text: impl Into<String>) -> Self {
        Self { is_warning: true, ..Self::why(text) }
    }

    fn evidence(mut self, source: impl Into<String>, value: impl ToString) -> Self {
        self.evidence.push(Evidence { source: source.into(), value: value.to_string() });
        self
    }
}

/// Splits the CPUs of a host: whole cores, nearest to the network card, never the first core.
///
/// # Errors
/// [`Refusal`], where the CPUs cannot be told, there is no such card, or more is wanted than is
/// sound.
pub fn propose(facts: &Facts, wish: &Wish) -> Result<Split, Refusal> {
    let cores = cores::of(facts)?;
    let card = card::choose(facts, wish.near.as_deref())?;
    let rule = Rule::of(facts, &cores, wish.force);
    let pool = Pool::of(facts, &cores, card.as_ref(), &rule);
    let most = pool.most();
    let wanted = wish.isolate.unwrap_or(pool.one_node().max(1));
    if wanted == 0 {
        return Err(Refusal::Nothing { online: facts.cpus().online.clone() });
    }
    if wanted > most {
        let remedy = match (most, wish.force) {
            (0, _) => "the first core is never isolated, nor is a slower one: take a larger host",
            (_, false) => "ask for fewer, or force it",
            (_, true) => "ask for fewer",
        };
        return Err(Refusal::TooMany { wanted, most, rule: rule.text, remedy });
    }
    let isolated = pool.take(wanted);
    let housekeeping = facts.cpus().online.minus(&isolated);
    let mut why = reasons(facts, &isolated, &housekeeping, card.as_ref(), &rule);
    why.extend(examine::weigh(facts, &cores, &isolated, card.as_ref()));
    Ok(Split { isolated, housekeeping, why })
}

/// How many cores are kept for everything else.
struct Rule {
    /// In words, with the reason.
    text: &'static str,
    /// Of all.
    total: usize,
    /// Of a node with more than one core, one in so many.
    share: Option<usize>,
}

impl Rule {
    fn of(facts: &Facts, cores: &[Core], force: bool) -> Self {
        if force {
            let text = "only the first core is kept, as forced";
            return Self { text, total: 1, share: None };
        }
        if facts.cpus().online.len() <= SMALL {
            let text = "half of the cores of a small machine are kept: one alone would have to do \
                        all that the others are spared";
            return Self { text, total: cores.len().div_ceil(2), share: None };
        }
        let text = "at least one core in 8 is kept on each node that has several: its own kernel \
                    threads and its devices' interrupts need a CPU there";
        Self { text, total: cores.len().div_ceil(KEPT_SHARE), share: Some(KEPT_SHARE) }
    }

    /// How many of a node's cores are kept; a lone core cannot be shared out.
    fn kept(&self, cores: usize) -> usize {
        match self.share {
            Some(share) if cores > 1 => cores.div_ceil(share),
            _ => 0,
        }
    }
}

/// The cores that may be isolated, by node and by last-level cache.
struct Pool<'a> {
    /// Nearest first.
    nodes: Vec<Node<'a>>,
    /// The most that may be taken of all nodes together.
    limit: usize,
}

struct Node<'a> {
    /// The most that may be taken.
    limit: usize,
    /// Cores by cache: those in the first core's cache last, in each the highest first, so that
    /// what is kept is together and low.
    caches: Vec<Vec<&'a Core>>,
}

impl<'a> Pool<'a> {
    fn of(facts: &Facts, cores: &'a [Core], card: Option<&Card>, rule: &Rule) -> Self {
        let slower = facts.cpus().slower.value();
        let is_slow = |core: &Core| slower.is_some_and(|slower| slower.cpus.intersects(&core.cpus));
        let first = cores.first();
        let mut by_node: BTreeMap<Option<usize>, Vec<&Core>> = BTreeMap::new();
        for core in cores {
            by_node.entry(core.node).or_default().push(core);
        }
        let mut nodes: Vec<(Option<usize>, Node)> = Vec::new();
        for (number, all) in by_node {
            let mut caches: BTreeMap<_, Vec<&Core>> = BTreeMap::new();
            for core in all.iter().rev().filter(|core| Some(**core) != first && !is_slow(core)) {
                let with_first = first.is_some_and(|first| core.llc.intersects(&first.llc));
                caches.entry((with_first, core.llc.lowest())).or_default().push(core);
            }
            let free: usize = caches.values().map(Vec::len).sum();
            let limit = free.min(all.len() - rule.kept(all.len()));
            nodes.push((number, Node { limit, caches: caches.into_values().collect() }));
        }
        let near = card.and_then(|card| card.nic.node);
        // Where no card tells, the node that has most to give.
        nodes.sort_by_key(|(number, node)| {
            (near.is_some() && *number != near, near.is_none().then_some(Reverse(node.limit)))
        });
        let nodes = nodes.into_iter().map(|(_, node)| node).collect();
        Self { nodes, limit: cores.len().saturating_sub(rule.total) }
    }

    /// How many cores may be isolated at all.
    fn most(&self) -> usize {
        self.nodes.iter().map(|node| node.limit).sum::<usize>().min(self.limit)
    }

    /// How many may be on the nearest node that has any.
    fn one_node(&self) -> usize {
        let limits = self.nodes.iter().map(|node| node.limit);
        limits.filter(|limit| *limit > 0).map(|limit| limit.min(self.limit)).next().unwrap_or(0)
    }

    fn take(&self, wanted: usize) -> CpuSet {
        let mut taken = CpuSet::new();
        let mut missing = wanted;
        for node in &self.nodes {
            let count = missing.min(node.limit);
            for core in node.take(count) {
                taken = taken.or(&core.cpus);
            }
            missing -= count;
        }
        taken
    }
}

impl Node<'_> {
    /// From one cache if it has as many.
    fn take(&self, count: usize) -> impl Iterator<Item = &&Core> {
        let one = self.caches.iter().position(|cache| cache.len() >= count);
        self.caches.iter().skip(one.unwrap_or(0)).flatten().take(count)
    }
}

fn reasons(
    facts: &Facts,
    isolated: &CpuSet,
    housekeeping: &CpuSet,
    card: Option<&Card>,
    rule: &Rule,
) -> Vec<Reason> {
    let cpus = facts.cpus();
    let mut why = vec![card::reason(facts, isolated, card)];
    why.push(
        Reason::why(format!("CPUs {housekeeping} are left for everything else: {}", rule.text))
            .evidence("/sys/devices/system/cpu/online", &cpus.online),
    );
    if cpus.has_smt() {
        let core = isolated.lowest().and_then(|cpu| Some((cpu, cpus.topology.get(&cpu)?)));
        let reason = Reason::why("whole cores are taken: what runs on one thread slows the other");
        why.extend(core.map(|(cpu, place)| {
            let source = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            reason.evidence(source, &place.siblings)
        }));
    }
    match &cpus.slower {
        Reading::Measured(slower) if slower.cpus.is_empty() => {}
        Reading::Measured(slower) => why.push(
            Reason::why(format!("CPUs {} are slower cores and left out", slower.cpus))
                .evidence(&slower.source, &slower.cpus),
        ),
        unread => why.push(
            Reason::warning("whether some cores are slower than others could not be told")
                .evidence("kinds of cores", unread.why()),
        ),
    }
    why
}
