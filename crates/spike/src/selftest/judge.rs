//! What was injected against what was found.

use std::collections::BTreeMap;

use quietcore_measure::{Kind, Nanos, Spike};

use super::Injector;
use super::protocol::Span;

/// How an injected cause was named, and by whom it was said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The kind, within the injected stretch.
    pub kind: Kind,
    /// Who or what exactly.
    pub by: String,
}

/// What came of one injector.
#[derive(Clone, Debug, Default)]
pub struct ClassResult {
    /// The injector's name.
    pub name: &'static str,
    /// Causes that were brought about and felt.
    pub felt: u64,
    /// Causes that nobody felt: below the threshold, or the victim was resting.
    pub unfelt: u64,
    /// Causes all of whose time the hypervisor had taken, by its own clock.
    pub taken: u64,
    /// How much of what was felt is said to be the hypervisor's.
    pub stolen_ns: Nanos,
    /// How often each kind was named.
    pub named: BTreeMap<Kind, u64>,
    /// How often the right one was.
    pub right: u64,
    /// How often nothing was.
    pub unexplained: u64,
    /// Time that was felt, and how much of it is explained.
    pub felt_ns: Nanos,
    /// How much of it is explained.
    pub explained_ns: Nanos,
    /// Spikes whose segments do not add up.
    pub do_not_add_up: u64,
    /// Spikes that were named wrongly, for people: the first [`Self::EXAMPLES`].
    pub wrong_examples: Vec<Spike>,
    /// Why the cause cannot be had here.
    pub not_here: Option<String>,
}

impl ClassResult {
    /// How many of the spikes that were named wrongly are kept.
    pub const EXAMPLES: usize = 20;

    /// Of a cause that cannot be had here.
    pub fn not_here(name: &'static str, why: String) -> Self {
        Self { name, not_here: Some(why), ..Self::default() }
    }

    /// Adds another run of the same injector.
    pub fn add(&mut self, other: Self) {
        self.felt += other.felt;
        self.unfelt += other.unfelt;
        self.taken += other.taken;
        self.stolen_ns += other.stolen_ns;
        self.right += other.right;
        self.unexplained += other.unexplained;
        self.felt_ns += other.felt_ns;
        self.explained_ns += other.explained_ns;
        self.do_not_add_up += other.do_not_add_up;
        for (kind, count) in other.named {
            *self.named.entry(kind).or_default() += count;
        }
        self.wrong_examples.extend(other.wrong_examples);
        self.wrong_examples.truncate(Self::EXAMPLES);
        self.not_here = self.not_here.take().or(other.not_here);
    }

    /// The share that was named rightly; `None` where nothing was felt.
    pub fn recall(&self) -> Option<f64> {
        (self.felt > 0).then(|| self.right as f64 / self.felt as f64)
    }

    /// How often something wrong was named.
    pub fn wrong(&self) -> u64 {
        self.felt - self.right - self.unexplained
    }

    /// The share of the felt time that is explained; `None` where nothing was felt.
    pub fn explained(&self) -> Option<f64> {
        (self.felt_ns.0 > 0).then(|| self.explained_ns.0 as f64 / self.felt_ns.0 as f64)
    }
}

/// Joins causes to what the victim felt and how that is explained, by time.
pub fn judge(injector: &Injector, caused: &[Span], felt: &[Spike]) -> ClassResult {
    let mut result = ClassResult { name: injector.name, ..ClassResult::default() };
    result.do_not_add_up = felt.iter().filter(|spike| !spike.adds_up()).count() as u64;
    let segments = felt.iter().flat_map(|spike| &spike.segments);
    let stolen = segments.filter(|segment| segment.kind == Kind::Steal);
    result.stolen_ns = stolen.fold(Nanos(0), |sum, segment| sum + segment.len_ns);
    for cause in caused {
        let overlap = |spike: &&Spike| span(spike).overlap(cause);
        let Some(spike) = felt.iter().max_by_key(overlap).filter(|spike| overlap(spike) > 0) else {
            result.unfelt += 1;
            continue;
        };
        let Some(found) = named(spike, cause) else {
            result.taken += 1;
            continue;
        };
        result.felt += 1;
        *result.named.entry(found.kind).or_default() += 1;
        let dark = spike.segments.iter().filter(|segment| segment.kind == Kind::Unexplained);
        result.felt_ns += spike.len_ns;
        let dark: u64 = dark.map(|segment| segment.len_ns.0).sum();
        result.explained_ns += Nanos(spike.len_ns.0.saturating_sub(dark));
        if injector.expects.contains(&found.kind) {
            result.right += 1;
        } else if found.kind == Kind::Unexplained {
            result.unexplained += 1;
        } else if result.wrong_examples.len() < ClassResult::EXAMPLES {
            result.wrong_examples.push(spike.clone());
        }
    }
    result
}

fn span(spike: &Spike) -> Span {
    Span { start: spike.start_ns, end: spike.start_ns + spike.len_ns.0 }
}

/// The kind that most of a cause's own time went to. What the hypervisor took of it by its own clock is
/// not the cause's; `None` where that was all.
fn named(spike: &Spike, cause: &Span) -> Option<Found> {
    let mut shares: BTreeMap<(Kind, &str), u64> = BTreeMap::new();
    for segment in &spike.segments {
        let start = spike.start_ns + segment.at_ns.0;
        let of = Span { start, end: start + segment.len_ns.0 };
        *shares.entry((segment.kind, &segment.by)).or_default() += of.overlap(cause);
    }
    shares.retain(|_, ns| *ns > 0);
    let was_taken = shares.keys().any(|(kind, _)| *kind == Kind::Steal);
    shares.retain(|(kind, _), _| *kind != Kind::Steal);
    match shares.into_iter().max_by_key(|&(_, ns)| ns) {
        Some(((kind, by), _)) => Some(Found { kind, by: by.to_owned() }),
        None if was_taken => None,
        None => Some(Found { kind: Kind::Unexplained, by: String::new() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_measure::Segment;

    fn spike(start_ns: u64, parts: &[(u64, Kind)]) -> Spike {
        let mut at = 0;
        let segments = parts.iter().map(|&(len, kind)| {
            at += len;
            let (at_ns, len_ns) = (Nanos(at - len), Nanos(len));
            Segment { at_ns, len_ns, kind, by: String::new(), evidence: Vec::new() }
        });
        let segments = segments.collect();
        Spike { start_ns, len_ns: Nanos(at), segments, ..Spike::default() }
    }

    fn tick() -> &'static Injector {
        Injector::named("tick").unwrap()
    }

    #[test]
    fn a_cause_is_named_by_what_fills_its_own_time() {
        let felt = [spike(100, &[(50, Kind::Preempted), (10, Kind::Tick)])];
        let result = judge(tick(), &[Span { start: 148, end: 160 }], &felt);
        assert_eq!((result.felt, result.right, result.wrong()), (1, 1, 0));
        assert_eq!(result.explained(), Some(1.0));
    }

    #[test]
    fn wrong_and_unexplained_are_not_the_same() {
        let felt = [spike(100, &[(10, Kind::Ipi)]), spike(200, &[(10, Kind::Unexplained)])];
        let caused = [105, 205, 305].map(|start| Span { start, end: start + 3 });
        let result = judge(tick(), &caused, &felt);
        assert_eq!((result.felt, result.unfelt), (2, 1));
        assert_eq!((result.right, result.wrong(), result.unexplained), (0, 1, 1));
        assert_eq!(result.recall(), Some(0.0));
        assert_eq!(result.explained(), Some(0.5));
        assert_eq!(result.wrong_examples, [felt[0].clone()]);
    }

    #[test]
    fn what_the_hypervisor_took_is_no_cause_s() {
        let felt = [spike(100, &[(50, Kind::Steal), (10, Kind::Tick)])];
        let caused = [Span { start: 105, end: 160 }, Span { start: 105, end: 140 }];
        let result = judge(tick(), &caused, &felt);
        assert_eq!((result.felt, result.right, result.taken), (1, 1, 1));
        assert_eq!(result.stolen_ns, Nanos(50));
    }

    #[test]
    fn segments_that_do_not_add_up_are_counted() {
        let mut broken = spike(100, &[(10, Kind::Tick)]);
        broken.len_ns = Nanos(11);
        assert_eq!(judge(tick(), &[], &[broken]).do_not_add_up, 1);
    }
}
