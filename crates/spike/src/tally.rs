//! Spikes counted: by kind, by length, and the longest of them whole. Its size is bounded, however
//! long it counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use quietcore_measure::{
    Distribution, Hist, HistConfig, Kind, KindCount, Nanos, Section, Spike, Spikes,
};

/// How many spikes are kept whole: the longest.
const KEPT: usize = 500;

/// What was seen so far.
#[derive(Debug)]
pub struct Tally {
    threshold: Nanos,
    lengths: Hist,
    kinds: BTreeMap<Kind, KindCount>,
    kept: BinaryHeap<Reverse<Kept>>,
    incomplete: u64,
}

/// By length, so that the shortest goes first.
#[derive(Debug)]
struct Kept(Spike);

impl Kept {
    fn key(&self) -> (Nanos, u64) {
        (self.0.len_ns, self.0.start_ns)
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Kept {}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Tally {
    /// Nothing seen yet; `threshold` is what counts as a spike.
    pub fn new(threshold: Nanos) -> Self {
        Self {
            threshold,
            lengths: Hist::new(HistConfig::default()),
            kinds: BTreeMap::new(),
            kept: BinaryHeap::new(),
            incomplete: 0,
        }
    }

    /// Counts a spike.
    pub fn add(&mut self, spike: Spike) {
        self.lengths.record(spike.len_ns.0);
        self.incomplete += u64::from(spike.incomplete.is_some());
        let named = self.of(spike.kind());
        named.spikes += 1;
        named.max_ns = named.max_ns.max(spike.len_ns);
        for segment in &spike.segments {
            self.of(segment.kind).total_ns += segment.len_ns;
        }
        self.kept.push(Reverse(Kept(spike)));
        if self.kept.len() > KEPT {
            self.kept.pop();
        }
    }

    fn of(&mut self, kind: Kind) -> &mut KindCount {
        let none = KindCount { kind, spikes: 0, total_ns: Nanos(0), max_ns: Nanos(0) };
        self.kinds.entry(kind).or_insert(none)
    }

    /// How many spikes there were.
    pub fn count(&self) -> u64 {
        self.lengths.count()
    }

    /// The longest of them.
    pub fn longest(&self) -> Option<Nanos> {
        self.lengths.max().map(Nanos)
    }

    /// How many of them may not be explained whole.
    pub fn incomplete(&self) -> u64 {
        self.incomplete
    }

    /// What was to blame, in the order reports use.
    pub fn kinds(&self) -> impl Iterator<Item = &KindCount> {
        self.kinds.values()
    }

    /// The spikes and how long they were.
    pub fn sections(self, name: &str, title: &str) -> Vec<Section> {
        let lengths = Distribution::of(&format!("{name}_length"), "ns", &[], &self.lengths);
        let mut kinds: Vec<_> = self.kinds.into_values().collect();
        kinds.sort_by_key(|of| Reverse(of.total_ns));
        let omitted = self.lengths.count() - self.kept.len() as u64;
        let mut spikes: Vec<_> = self.kept.into_iter().map(|Reverse(Kept(spike))| spike).collect();
        spikes.sort_by_key(|spike| spike.start_ns);
        let (name, title) = (name.to_owned(), title.to_owned());
        let threshold_ns = self.threshold;
        vec![
            Section::Spikes(Spikes { name, title, threshold_ns, kinds, spikes, omitted }),
            Section::Distribution(lengths),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_measure::Segment;

    fn spike(start_ns: u64, parts: &[(Kind, u64)]) -> Spike {
        let mut at = Nanos(0);
        let segments = parts.iter().map(|&(kind, len)| {
            let at_ns = at;
            at += Nanos(len);
            let (by, evidence) = (String::new(), Vec::new());
            Segment { at_ns, len_ns: Nanos(len), kind, by, evidence }
        });
        let segments = segments.collect();
        Spike { start_ns, len_ns: at, segments, ..Spike::default() }
    }

    fn spikes(tally: Tally) -> Spikes {
        match tally.sections("spikes", "").swap_remove(0) {
            Section::Spikes(spikes) => spikes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn time_is_counted_by_segment_and_spikes_by_what_names_them() {
        let mut tally = Tally::new(Nanos(10));
        tally.add(spike(1, &[(Kind::Lock, 70), (Kind::RunQueue, 30)]));
        tally.add(spike(2, &[(Kind::RunQueue, 60)]));
        let spikes = spikes(tally);
        let counts: Vec<_> =
            spikes.kinds.iter().map(|k| (k.kind, k.spikes, k.total_ns.0, k.max_ns.0)).collect();
        assert_eq!(counts, [(Kind::RunQueue, 1, 90, 60), (Kind::Lock, 1, 70, 100)]);
    }

    #[test]
    fn the_longest_are_kept_in_the_order_of_time_and_the_rest_is_counted() {
        let mut tally = Tally::new(Nanos(1));
        for start in 0..KEPT as u64 + 40 {
            tally.add(spike(start, &[(Kind::User, start + 1)]));
        }
        let spikes = spikes(tally);
        assert_eq!((spikes.spikes.len(), spikes.omitted), (KEPT, 40));
        assert_eq!(spikes.spikes[0].start_ns, 40);
        assert!(spikes.spikes.is_sorted_by_key(|spike| spike.start_ns));
    }
}
