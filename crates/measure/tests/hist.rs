//! The histogram held against sorted values and against the HdrHistogram library.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use hdrhistogram::Histogram;
use proptest::collection::vec;
use proptest::prelude::*;
use quietcore_measure::{Hist, HistConfig, MergeError};

/// Small, usual and absurd values: rows of one unit, rows of many, saturation.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..600,
        4 => 0u64..10_000_000,
        2 => 0u64..4_000_000_000_000,
        1 => any::<u64>(),
    ]
}

fn config() -> impl Strategy<Value = HistConfig> {
    (1u8..=10, prop_oneof![1u64..100_000, any::<u64>(), Just(3_600_000_000_000)])
        .prop_map(|(precision_bits, highest)| HistConfig { precision_bits, highest })
}

fn recorded(config: HistConfig, edges: &[u64], values: &[u64]) -> Hist {
    let mut hist = Hist::with_edges(config, edges);
    values.iter().for_each(|&value| hist.record(value));
    hist
}

#[test]
fn the_default_holds_an_hour_within_one_percent() {
    let mut hist = Hist::new(HistConfig::default());
    hist.record(3_600_000_000_000);
    assert_eq!(hist.saturated(), 0);
    hist.record(3_600_000_000_001);
    assert_eq!(hist.saturated(), 1);
    for value in [300u64, 87_654, 123_456_789, 3_599_999_999_999] {
        let mut hist = Hist::new(HistConfig::default());
        hist.record(value);
        let (low, high, _) = hist.buckets().next().unwrap();
        assert!((high - low) as f64 / value as f64 <= 0.01, "{low}..={high}");
    }
}

#[test]
fn an_empty_histogram_has_no_values_rather_than_zeros() {
    let hist = Hist::new(HistConfig::default());
    assert!(hist.is_empty());
    assert_eq!((hist.min(), hist.max(), hist.mean()), (None, None, None));
    assert_eq!(hist.value_at(0.5), None);
    assert_eq!(hist.buckets().count(), 0);
}

#[test]
fn saturated_values_keep_the_maximum_and_are_told_apart() {
    let config = HistConfig { precision_bits: 4, highest: 1_000 };
    let hist = recorded(config, &[], &[995, 5_000, 7_000]);
    assert_eq!(hist.saturated(), 2);
    assert_eq!(hist.max(), Some(7_000));
    assert_eq!(hist.value_at(0.0), Some(995));
    assert_eq!(hist.value_at(1.0 / 3.0), Some(1_000));
    assert_eq!(hist.value_at(0.9), Some(7_000));
    assert_eq!(hist.buckets().last(), Some((1_001, 7_000, 2)));
}

#[test]
fn counts_stop_at_the_largest_number_instead_of_wrapping() {
    let mut hist = Hist::with_edges(HistConfig::default(), &[10]);
    hist.record_n(u64::MAX, u64::MAX);
    hist.record_n(u64::MAX, u64::MAX);
    hist.record(u64::MAX);
    // One more than the limit: the single value was recorded without looking.
    assert_eq!(hist.count(), 1 << 63);
    assert_eq!(hist.value_at(0.5), Some(u64::MAX));
    hist.record_n(u64::MAX, 1);
    assert_eq!(hist.count(), i64::MAX as u64);
    assert_eq!(hist.above(10), Some(i64::MAX as u64));
    hist.clear();
    assert_eq!(hist, Hist::with_edges(HistConfig::default(), &[10]));
}

#[test]
fn histograms_of_different_make_are_not_merged() {
    let mut ours = recorded(HistConfig::default(), &[5], &[1]);
    let before = ours.clone();
    let finer = HistConfig { precision_bits: 8, ..HistConfig::default() };
    let merged = ours.merge(&recorded(finer, &[5], &[2]));
    assert!(matches!(merged, Err(MergeError::Config { .. })));
    let merged = ours.merge(&recorded(HistConfig::default(), &[6], &[2]));
    assert!(matches!(merged, Err(MergeError::Edges { .. })));
    assert_eq!(ours, before);
}

#[test]
fn the_precision_is_at_least_what_was_asked_for() {
    for (asked, given) in [(0, 4), (4, 4), (5, 7), (7, 7), (9, 10), (12, 14), (15, 17), (99, 17)] {
        let config = HistConfig { precision_bits: asked, highest: 0 };
        let given = HistConfig { precision_bits: given, highest: 1 };
        assert_eq!(Hist::new(config).config(), given);
    }
}

#[test]
fn only_given_edges_are_answered() {
    let hist = recorded(HistConfig::default(), &[500, 100, 500], &[100, 101, 501]);
    assert_eq!(hist.above(100), Some(2));
    assert_eq!(hist.above(500), Some(1));
    assert_eq!(hist.above(101), None);
}

/// The library, with as many sub-buckets per power of two (10 bits are 3 digits).
fn library(values: &[u64], digits: u8) -> Histogram<u64> {
    let mut theirs = Histogram::new_with_bounds(1, 3_600_000_000_000, digits).unwrap();
    values.iter().for_each(|&value| theirs.record(value).unwrap());
    theirs
}

proptest! {
    #[test]
    fn quantiles_are_within_the_declared_error_of_the_sorted_values(
        config in config(), mut values in vec(value(), 1..200), q in 0.0f64..=1.0,
    ) {
        let hist = recorded(config, &[], &values);
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let exact = values[rank - 1];
        let found = hist.value_at(q).unwrap();
        prop_assert!(found >= exact);
        prop_assert!(found <= values[values.len() - 1]);
        if exact <= config.highest {
            let error = exact >> hist.config().precision_bits;
            prop_assert!(found - exact <= error, "{found} for {exact}");
        }
    }

    #[test]
    fn count_extremes_and_mean_are_exact(config in config(), values in vec(value(), 1..200)) {
        let hist = recorded(config, &[], &values);
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        prop_assert_eq!(hist.count(), values.len() as u64);
        prop_assert_eq!(hist.min(), values.iter().copied().min());
        prop_assert_eq!(hist.max(), values.iter().copied().max());
        prop_assert_eq!(hist.mean().unwrap(), sum as f64 / values.len() as f64);
        let saturated = values.iter().filter(|&&value| value > config.highest).count();
        prop_assert_eq!(hist.saturated(), saturated as u64);
    }

    #[test]
    fn buckets_are_disjoint_ascending_and_hold_every_value(
        config in config(), values in vec(value(), 0..200),
    ) {
        let hist = recorded(config, &[], &values);
        let mut below = None;
        for (low, high, count) in hist.buckets() {
            prop_assert!(low <= high && below.is_none_or(|below| low > below));
            let inside = values.iter().filter(|&value| (low..=high).contains(value)).count();
            prop_assert_eq!(count, inside as u64);
            below = Some(high);
        }
        prop_assert_eq!(hist.buckets().map(|(_, _, count)| count).sum::<u64>(), hist.count());
    }

    #[test]
    fn merging_is_recording_everything_into_one(
        config in config(), a in vec(value(), 0..100), b in vec(value(), 0..100), edge in value(),
    ) {
        let mut merged = recorded(config, &[edge], &a);
        merged.merge(&recorded(config, &[edge], &b)).unwrap();
        prop_assert_eq!(merged, recorded(config, &[edge], &[a, b].concat()));
    }

    #[test]
    fn recording_n_times_is_recording_n_times(config in config(), value in value(), n in 0u64..50) {
        let mut hist = Hist::with_edges(config, &[1_000]);
        hist.record_n(value, n);
        prop_assert_eq!(hist, recorded(config, &[1_000], &vec![value; n as usize]));
    }

    #[test]
    fn edges_count_exactly_what_lies_above_them(
        config in config(), values in vec(value(), 0..200), edges in vec(value(), 0..5),
    ) {
        // Values at an edge and right above it are where buckets would lie.
        let mut values = values;
        values.extend(&edges);
        values.extend(edges.iter().map(|edge| edge.saturating_add(1)));
        let hist = recorded(config, &edges, &values);
        for &edge in &edges {
            let above = values.iter().filter(|&&value| value > edge).count() as u64;
            prop_assert_eq!(hist.above(edge), Some(above));
        }
    }

    #[test]
    fn the_library_finds_the_same_quantiles(
        values in vec(0u64..3_600_000_000_000, 1..200), digits in 1u8..=4, pick in 0.0f64..1.0,
    ) {
        let precision_bits = [4, 7, 10, 14][usize::from(digits) - 1];
        let config = HistConfig { precision_bits, ..HistConfig::default() };
        let hist = recorded(config, &[], &values);
        let theirs = library(&values, digits);
        // Between two ranks, where no rounding of the product can tell the two apart.
        let q = ((pick * values.len() as f64).floor() + 0.5) / values.len() as f64;
        let clamped = theirs.value_at_quantile(q).min(hist.max().unwrap());
        prop_assert_eq!(hist.value_at(q).unwrap(), clamped);
        prop_assert_eq!(hist.count(), theirs.len());
        let buckets: Vec<_> = hist.buckets().map(|(low, _, count)| (low, count)).collect();
        let ours: Vec<_> = theirs
            .iter_recorded()
            .map(|v| (theirs.lowest_equivalent(v.value_iterated_to()), v.count_at_value()))
            .collect();
        prop_assert_eq!(buckets, ours);
    }
}

#[test]
fn counts_from_elsewhere_fill_the_same_buckets() {
    let config = HistConfig::default();
    let mut counts = vec![0; config.bucket_count()];
    let (mut low, mut high) = (Hist::new(config), Hist::new(config));
    // The first two rows of buckets hold one value each; the next one two.
    for value in [0, 5, 255] {
        counts[value as usize] = 2;
        low.record_n(value, 2);
        high.record_n(value, 2);
    }
    counts[256] = 3;
    low.record_n(256, 3);
    high.record_n(257, 3);
    let theirs = Hist::from_counts(config, &counts);
    assert_eq!(theirs, high);
    assert!(theirs.buckets().eq(low.buckets()));
}
