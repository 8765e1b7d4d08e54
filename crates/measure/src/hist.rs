//! The histogram of the hot paths: one writer, fixed memory, a few instructions per value.
//!
//! The layout is HdrHistogram's (every power of two is cut into equally many buckets), so that
//! what is recorded here can be handed on in its format. Written by hand because a spinning loop
//! cannot spare what a resizable, generic histogram costs per value, and because a service level
//! needs *exact* counts at its threshold, which no bucket gives ([`Hist::with_edges`]).
//! There is no average of percentiles and no way to make one: histograms are [merged](Hist::merge).

use std::fmt;

/// The precision bits of HdrHistogram's 0 to 5 significant digits: the power of two that holds
/// `2 * 10^digits` single units has that many bits and one.
pub(crate) const BITS_OF_DIGITS: [u8; 6] = [0, 4, 7, 10, 14, 17];

/// Resolution and range of a [`Hist`].
///
/// The memory is about `2^precision_bits * (log2(highest) - precision_bits + 2)` counters of
/// 8 bytes: 37 KiB for the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HistConfig {
    /// Every power of two is cut into `2^precision_bits` buckets: values below
    /// `2^(precision_bits + 1)` are kept exactly, larger ones with a relative error of at most
    /// `2^-precision_bits`. Rounded up to one of 4, 7, 10, 14 and 17 (the most), which are
    /// HdrHistogram's 1 to 5 significant digits, so that every histogram can be exchanged with its
    /// buckets as they are.
    pub precision_bits: u8,
    /// The largest value that has a bucket; larger ones go to the last bucket and are counted
    /// as [saturated](Hist::saturated). At least 1; 0 is taken as 1. Other readers of
    /// [`crate::encode_v2`] stop at 2^63 - 1.
    pub highest: u64,
}

impl Default for HistConfig {
    /// Nanoseconds up to one hour within 0.8 %.
    fn default() -> Self {
        Self { precision_bits: 7, highest: 3_600_000_000_000 }
    }
}

impl HistConfig {
    /// The configuration in effect: see the fields.
    fn effective(self) -> Self {
        let finest = BITS_OF_DIGITS[5];
        let at_least = |bits: &u8| *bits >= self.precision_bits.max(1);
        let precision_bits = BITS_OF_DIGITS.into_iter().find(at_least).unwrap_or(finest);
        Self { precision_bits, highest: self.highest.max(1) }
    }

    /// How many buckets there are; who fills them elsewhere hands them to [`Hist::from_counts`].
    pub fn bucket_count(self) -> usize {
        let Self { precision_bits, highest } = self.effective();
        Self::index(u32::from(precision_bits), highest) + 1
    }

    /// The bucket of a value. Values below `2^bits` have exponent `bits` forced upon them, which
    /// makes their shift 0 and the whole function free of branches.
    #[inline]
    pub(crate) fn index(bits: u32, value: u64) -> usize {
        let exponent = 63 - (value | 1 << bits).leading_zeros();
        let shift = exponent - bits;
        ((u64::from(shift) << bits) + (value >> shift)) as usize
    }

    /// Smallest and largest value of a bucket.
    pub(crate) fn bounds(bits: u32, index: usize) -> (u64, u64) {
        let index = index as u64;
        // The first two rows of 2^bits buckets are exact; row r from then on is shifted by r - 1.
        let shift = (index >> bits).saturating_sub(1);
        let low = (index - (shift << bits)) << shift;
        (low, low + ((1 << shift) - 1))
    }
}

/// Why two histograms cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// They differ in resolution or range, so that counts have no common buckets.
    #[error("histograms differ in resolution or range: {ours:?} and {theirs:?}")]
    Config {
        /// Of the histogram merged into.
        ours: HistConfig,
        /// Of the other one.
        theirs: HistConfig,
    },
    /// They count exactly at different edges.
    #[error("histograms count exactly at different edges: {ours:?} and {theirs:?}")]
    Edges {
        /// Of the histogram merged into.
        ours: Vec<u64>,
        /// Of the other one.
        theirs: Vec<u64>,
    },
}

/// An exact count beside the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    at: u64,
    above: u64,
}

/// A log-linear histogram of `u64` values with one writer.
///
/// All memory is allocated by the constructor; recording, merging and clearing allocate nothing.
/// Count, minimum, maximum and mean are exact, quantiles within the configured relative error.
/// Counts stop at 2^63 - 1, which is also HdrHistogram's limit, instead of wrapping.
#[derive(Clone, PartialEq, Eq)]
pub struct Hist {
    config: HistConfig,
    /// `config.precision_bits` in the width that shifts want.
    bits: u32,
    counts: Box<[u64]>,
    /// Ascending, so that a value below the first one costs a single comparison.
    edges: Box<[Edge]>,
    count: u64,
    saturated: u64,
    /// `u64::MAX` while empty.
    min: u64,
    max: u64,
    sum: u128,
}

impl Hist {
    /// An empty histogram.
    pub fn new(config: HistConfig) -> Self {
        Self::with_edges(config, &[])
    }

    /// An empty histogram that also counts exactly how many values lie above each edge.
    ///
    /// Cost per recorded value: one comparison while it is at or below the lowest edge, which is
    /// the normal case for service-level thresholds; one comparison and one addition more for
    /// each edge that it exceeds.
    pub fn with_edges(config: HistConfig, edges: &[u64]) -> Self {
        let config = config.effective();
        let bits = u32::from(config.precision_bits);
        let mut edges = edges.to_vec();
        edges.sort_unstable();
        edges.dedup();
        Self {
            config,
            bits,
            counts: vec![0; HistConfig::index(bits, config.highest) + 1].into(),
            edges: edges.into_iter().map(|at| Edge { at, above: 0 }).collect(),
            count: 0,
            saturated: 0,
            min: u64::MAX,
            max: 0,
            sum: 0,
        }
    }

    /// What was counted elsewhere in buckets of this configuration, each value taken as the largest
    /// of its bucket.
    pub fn from_counts(config: HistConfig, counts: &[u64]) -> Self {
        let mut hist = Self::new(config);
        for (index, &count) in counts.iter().enumerate().take(hist.counts.len()) {
            let (_, high) = HistConfig::bounds(hist.bits, index);
            hist.record_n(high.min(hist.config.highest), count);
        }
        hist
    }

    /// Resolution and range in effect.
    pub fn config(&self) -> HistConfig {
        self.config
    }

    /// Records one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        // Branches that are hardly ever taken rather than `min` and `max`: those would store every
        // time, and the next record would have to wait for the store.
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
        let mut bounded = value;
        if value > self.config.highest {
            bounded = self.config.highest;
            self.saturated += 1;
        }
        // In bounds by construction; `get_mut` spares the hot path a panic.
        if let Some(count) = self.counts.get_mut(HistConfig::index(self.bits, bounded)) {
            *count += 1;
        }
        self.count += 1;
        self.sum = self.sum.wrapping_add(u128::from(value));
        self.record_edges(value, 1);
    }

    /// Records a value `n` times.
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        let index = HistConfig::index(self.bits, value.min(self.config.highest));
        if let Some(count) = self.counts.get_mut(index) {
            *count = sum_of(*count, n);
        }
        self.count = sum_of(self.count, n);
        self.sum = self.sum.saturating_add(u128::from(value) * u128::from(n));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if value > self.config.highest {
            self.saturated = sum_of(self.saturated, n);
        }
        self.record_edges(value, n);
    }

    #[inline]
    fn record_edges(&mut self, value: u64, n: u64) {
        for edge in &mut self.edges {
            if value <= edge.at {
                break;
            }
            edge.above = sum_of(edge.above, n);
        }
    }

    /// Adds everything that another histogram has recorded, as if it had been recorded here.
    ///
    /// # Errors
    /// When the two differ in configuration or edges; this one is unchanged then.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.config != other.config {
            return Err(MergeError::Config { ours: self.config, theirs: other.config });
        }
        if !self.edges.iter().map(|e| e.at).eq(other.edges.iter().map(|e| e.at)) {
            let at = |hist: &Self| hist.edges.iter().map(|e| e.at).collect();
            return Err(MergeError::Edges { ours: at(self), theirs: at(other) });
        }
        if other.is_empty() {
            return Ok(());
        }
        for (ours, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *ours = sum_of(*ours, *theirs);
        }
        for (ours, theirs) in self.edges.iter_mut().zip(&other.edges) {
            ours.above = sum_of(ours.above, theirs.above);
        }
        self.count = sum_of(self.count, other.count);
        self.saturated = sum_of(self.saturated, other.saturated);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        Ok(())
    }

    /// Forgets everything recorded; configuration, edges and memory stay.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        for edge in &mut self.edges {
            edge.above = 0;
        }
        self.count = 0;
        self.saturated = 0;
        self.min = u64::MAX;
        self.max = 0;
        self.sum = 0;
    }

    /// Number of values recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Smallest value, exact; `None` while empty.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min)
    }

    /// Largest value, exact even if it saturated; `None` while empty.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max)
    }

    /// Arithmetic mean of the values themselves, not of their buckets; `None` while empty.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum as f64 / self.count as f64)
    }

    /// How many values were larger than [`HistConfig::highest`].
    pub fn saturated(&self) -> u64 {
        self.saturated
    }

    /// Exact number of values above an edge; `None` if `edge` was not given to
    /// [`with_edges`](Self::with_edges).
    pub fn above(&self, edge: u64) -> Option<u64> {
        let index = self.edges.binary_search_by_key(&edge, |e| e.at).ok()?;
        Some(self.edges[index].above)
    }

    /// The value at or below which a fraction `q` of the values lies (0 to 1; outside is taken
    /// as the nearest inside): the upper bound of the bucket that holds the value of rank
    /// `ceil(q * count)`, but never above the exact maximum; the exact minimum for 0. `None` while
    /// empty.
    ///
    /// This is what was *seen*; whether so few values can prove it says [`crate::quantile`].
    pub fn value_at(&self, q: f64) -> Option<u64> {
        if q <= 0.0 {
            return self.min();
        }
        Some(self.rank_bounds(rank(q, self.count))?.1)
    }

    /// Non-empty buckets in ascending order: smallest value, largest value, count.
    ///
    /// Saturated values come last, as a bucket of their own up to the exact maximum.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let last = self.counts.len() - 1;
        let regular = self.counts.iter().enumerate().filter_map(move |(index, &count)| {
            let count = if index == last { count.saturating_sub(self.saturated) } else { count };
            let (low, high) = HistConfig::bounds(self.bits, index);
            (count > 0).then_some((low, high.min(self.config.highest), count))
        });
        let saturated =
            (self.saturated > 0).then(|| (self.config.highest + 1, self.max, self.saturated));
        regular.chain(saturated)
    }

    /// How many values may lie above a limit: all those in buckets that reach beyond it.
    pub(crate) fn above_bucketwise(&self, limit: u64) -> u64 {
        if limit >= self.max {
            return 0;
        }
        self.buckets().filter(|&(_, high, _)| high > limit).map(|(_, _, count)| count).sum()
    }

    /// Bounds of the value with this rank (1 is the smallest value), narrowed by the exact
    /// minimum and maximum. `None` if there are fewer values.
    pub(crate) fn rank_bounds(&self, rank: u64) -> Option<(u64, u64)> {
        let mut seen = 0u64;
        let (low, high, _) = self.buckets().find(|&(_, _, count)| {
            seen = seen.saturating_add(count);
            seen >= rank.max(1)
        })?;
        Some((low.max(self.min), high.min(self.max)))
    }

    /// Records `n` values of which only bounds are known: the bucket is that of `high`, the mean
    /// takes the middle. Buckets of another histogram come back this way.
    pub(crate) fn record_between(&mut self, low: u64, high: u64, n: u64) {
        self.record_n(high, n);
        if n > 0 {
            self.min = self.min.min(low);
            self.sum -= u128::from((high - low) / 2) * u128::from(n);
        }
    }

    /// Replaces the extremes by better known ones, if they can be those of the extreme buckets.
    /// Formats that keep buckets only lose them.
    pub(crate) fn narrow_extremes(&mut self, min: u64, max: u64) -> bool {
        let bucket = |value: u64| HistConfig::index(self.bits, value.min(self.config.highest));
        // Where everything had saturated, only the bucket of the maximum is left.
        let lone = bucket(self.min) == bucket(self.max);
        let fits = !self.is_empty()
            && min <= max
            && bucket(max) == bucket(self.max)
            && (bucket(min) == bucket(self.min) || lone);
        if fits {
            (self.min, self.max) = (min, max);
        }
        fits
    }
}

impl fmt::Debug for Hist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hist")
            .field("config", &self.config)
            .field("count", &self.count)
            .field("min", &self.min())
            .field("max", &self.max())
            .field("saturated", &self.saturated)
            .finish_non_exhaustive()
    }
}

/// Half the range is left for [`Hist::record`], which does not look: no program lives to use it up.
fn sum_of(a: u64, b: u64) -> u64 {
    a.saturating_add(b).min(i64::MAX as u64)
}

/// The rank of a quantile among `count` values, from 1. A product that misses a whole number by
/// rounding only (0.07 * 100 is 7.000000000000001) is taken as that number.
pub(crate) fn rank(q: f64, count: u64) -> u64 {
    let exact = q.clamp(0.0, 1.0) * count as f64;
    let near = exact.round();
    let rank = if (exact - near).abs() <= exact * 4.0 * f64::EPSILON { near } else { exact.ceil() };
    (rank as u64).clamp(1, count.max(1))
}
