//! Holes in the time of a spinning CPU, and a store for them that cannot run out of memory.
//!
//! A measurement that goes wrong produces gaps by the million. Stopping it would lose the tail,
//! growing would disturb it; so the store keeps what explains a tail (the largest gaps), a fair
//! sample of the rest, and exact totals of everything.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Nanos;

/// A hole in a spinning CPU's time: between two readings of the clock more time went by than
/// the loop can have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// When it began, in nanoseconds on the measurement's clock.
    pub start_ns: u64,
    /// How long it was, in nanoseconds.
    pub len_ns: Nanos,
}

/// Ordered by length, as the heap of the largest needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByLength(Gap);

impl Ord for ByLength {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.len_ns, self.0.start_ns).cmp(&(other.0.len_ns, other.0.start_ns))
    }
}

impl PartialOrd for ByLength {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Keeps the largest gaps, a uniform sample of the others, and exact totals, in fixed memory.
///
/// All memory is allocated by the constructor. Until `largest + sampled` gaps have come, all are
/// kept; after that every gap that is not among the largest is in the sample with the same
/// probability (Vitter's algorithm R over the gaps in the order in which they turned out not to
/// be among the largest).
#[derive(Clone, Debug)]
pub struct GapStore {
    /// The smallest of the largest is at the top, where it can be pushed out.
    largest: BinaryHeap<Reverse<ByLength>>,
    keep_largest: usize,
    sample: Vec<Gap>,
    keep_sampled: usize,
    /// How many gaps have been candidates for the sample.
    candidates: u64,
    random: u64,
    count: u64,
    total: Nanos,
}

/// Written into memory that is only to be there.
const FILLER: Gap = Gap { start_ns: u64::MAX, len_ns: Nanos(u64::MAX) };

/// Room for `count` values that the kernel has not only promised: a page fault while measuring
/// would be a gap of the recorder's own making.
fn touched<T: Clone>(count: usize, filler: T) -> Vec<T> {
    let mut room = vec![filler; count];
    room.clear();
    room
}

impl GapStore {
    /// A store for the `largest` largest gaps and a sample of `sampled` others. The same seed
    /// and the same gaps give the same sample.
    pub fn new(largest: usize, sampled: usize, seed: u64) -> Self {
        Self {
            largest: BinaryHeap::from(touched(largest, Reverse(ByLength(FILLER)))),
            keep_largest: largest,
            sample: touched(sampled, FILLER),
            keep_sampled: sampled,
            candidates: 0,
            // An odd constant: xorshift never leaves 0.
            random: seed ^ 0x9e37_79b9_7f4a_7c15 | 1,
            count: 0,
            total: Nanos(0),
        }
    }

    /// Adds a gap: constant time unless it is one of the largest, then logarithmic in their
    /// number. Never allocates.
    #[inline]
    pub fn push(&mut self, gap: Gap) {
        self.count += 1;
        self.total += gap.len_ns;
        if self.largest.len() < self.keep_largest {
            self.largest.push(Reverse(ByLength(gap)));
            return;
        }
        let mut rest = gap;
        if let Some(mut smallest) = self.largest.peek_mut() {
            if gap.len_ns > smallest.0.0.len_ns {
                rest = std::mem::replace(&mut *smallest, Reverse(ByLength(gap))).0.0;
            }
        }
        self.sample(rest);
    }

    /// How many gaps were pushed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all gaps' lengths, kept or not.
    pub fn total(&self) -> Nanos {
        self.total
    }

    /// How many gaps are counted in the totals but no longer kept.
    pub fn omitted(&self) -> u64 {
        self.count - (self.largest.len() + self.sample.len()) as u64
    }

    /// The gaps that were kept, by time.
    pub fn kept(&self) -> Vec<Gap> {
        let mut kept: Vec<Gap> =
            self.largest.iter().map(|gap| gap.0.0).chain(self.sample.iter().copied()).collect();
        kept.sort_unstable_by_key(|gap| (gap.start_ns, gap.len_ns));
        kept
    }

    fn sample(&mut self, gap: Gap) {
        self.candidates += 1;
        if self.sample.len() < self.keep_sampled {
            self.sample.push(gap);
            return;
        }
        let slot = self.below(self.candidates) as usize;
        if let Some(kept) = self.sample.get_mut(slot) {
            *kept = gap;
        }
    }

    /// A number below `limit`, each with the same probability to within 2^-64 * `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn filled(largest: usize, sampled: usize, seed: u64, lengths: &[u64]) -> GapStore {
        let mut store = GapStore::new(largest, sampled, seed);
        for (start, &len) in lengths.iter().enumerate() {
            store.push(Gap { start_ns: start as u64, len_ns: Nanos(len) });
        }
        store
    }

    fn lengths(gaps: &[Gap]) -> Vec<u64> {
        let mut lengths: Vec<u64> = gaps.iter().map(|gap| gap.len_ns.0).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths
    }

    proptest! {
        #[test]
        fn up_to_the_capacity_everything_is_kept(
            largest in 0usize..20, sampled in 0usize..20, seed: u64, all in vec(0u64..50, 0..40),
        ) {
            let all = &all[..all.len().min(largest + sampled)];
            let store = filled(largest, sampled, seed, all);
            let kept: Vec<u64> = store.kept().iter().map(|gap| gap.len_ns.0).collect();
            prop_assert_eq!(kept, all);
            prop_assert_eq!(store.omitted(), 0);
        }

        #[test]
        fn the_largest_are_always_kept_and_the_totals_exact(
            largest in 0usize..20, sampled in 0usize..20, seed: u64, all in vec(0u64..50, 0..300),
        ) {
            let store = filled(largest, sampled, seed, &all);
            let kept = store.kept();
            prop_assert_eq!(kept.len(), all.len().min(largest + sampled));
            prop_assert!(kept.is_sorted_by(|a, b| a.start_ns < b.start_ns));
            for gap in &kept {
                prop_assert_eq!(all[gap.start_ns as usize], gap.len_ns.0);
            }
            let mut sorted = all.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let top = largest.min(sorted.len());
            prop_assert_eq!(&lengths(&kept)[..top], &sorted[..top]);
            prop_assert_eq!(store.count(), all.len() as u64);
            prop_assert_eq!(store.total(), Nanos(all.iter().sum()));
            prop_assert_eq!(store.omitted(), (all.len() - kept.len()) as u64);
        }
    }

    #[test]
    fn the_rest_is_sampled_without_favour() {
        // 1,000 gaps in ascending order: each but the 10 largest passes through the largest first,
        // which must not change its chance of 90 in 990.
        let ascending: Vec<u64> = (0..1_000).collect();
        let mut kept = vec![0u32; 1_000];
        for seed in 0..2_000 {
            for gap in filled(10, 90, seed, &ascending).kept() {
                kept[gap.len_ns.0 as usize] += 1;
            }
        }
        assert!(kept[990..].iter().all(|&times| times == 2_000));
        // By tenths: 99 gaps each, 18,000 expected, a standard deviation of about 130.
        for tenth in kept[..990].chunks(99) {
            let times: u32 = tenth.iter().sum();
            assert!(times.abs_diff(18_000) < 700, "{times}");
        }
    }

    #[test]
    fn the_same_seed_keeps_the_same_gaps() {
        let all: Vec<u64> = (0..5_000).map(|i| i * 7_919 % 1_009).collect();
        assert_eq!(filled(5, 20, 7, &all).kept(), filled(5, 20, 7, &all).kept());
        assert_ne!(filled(5, 20, 7, &all).kept(), filled(5, 20, 8, &all).kept());
    }

    #[test]
    fn a_store_of_nothing_still_counts() {
        let store = filled(0, 0, 0, &[3, 4]);
        assert_eq!((store.count(), store.total(), store.omitted()), (2, Nanos(7), 2));
        assert!(store.kept().is_empty());
    }
}
