//! From a histogram to its record, and back.

use std::collections::BTreeMap;

use crate::{Distribution, HdrError, Hist, decode_v2, encode_v2, quantile, samples_needed};

impl Distribution {
    /// The record of a histogram: percentiles with their confidence intervals, those that the
    /// number of values cannot prove left out and named, and the histogram itself.
    pub fn of(name: &str, unit: &str, labels: &[(&str, &str)], hist: &Hist) -> Self {
        let label = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        let mut ci95 = BTreeMap::new();
        let mut not_provable = BTreeMap::new();
        let mut percentile = |key: &str, q: f64| {
            let found = quantile(hist, q);
            match found.interval {
                Some(bounds) => drop(ci95.insert(key.to_owned(), [bounds.low, bounds.high])),
                None => drop(not_provable.insert(key.to_owned(), samples_needed(q))),
            }
            found.value
        };
        let (p50, p90, p99) =
            (percentile("p50", 0.5), percentile("p90", 0.9), percentile("p99", 0.99));
        let (p99_9, p99_99) = (percentile("p99_9", 0.999), percentile("p99_99", 0.9999));
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            labels: labels.iter().map(label).collect(),
            count: hist.count(),
            min: hist.min(),
            p50,
            p90,
            p99,
            p99_9,
            p99_99,
            max: hist.max(),
            ci95,
            not_provable,
            hist: encode_v2(hist),
        }
    }

    /// The histogram behind the record, with the exact extremes of the record.
    ///
    /// # Errors
    /// When it cannot be decoded, or does not hold what the record says.
    pub fn hist(&self) -> Result<Hist, HdrError> {
        let mut hist = decode_v2(&self.hist)?;
        let fits = hist.count() == self.count
            && match (self.min, self.max) {
                (Some(min), Some(max)) => hist.narrow_extremes(min, max),
                (None, None) => hist.is_empty(),
                _ => false,
            };
        fits.then_some(hist).ok_or_else(|| HdrError::Contradiction(self.name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HistConfig;

    fn of(count: u64) -> Distribution {
        let mut hist = Hist::new(HistConfig::default());
        (1..=count).for_each(|value| hist.record(value * 1_000 + 7));
        Distribution::of("jitter_gap", "ns", &[("cpu", "2")], &hist)
    }

    #[test]
    fn percentiles_that_are_proven_have_bounds_and_the_others_a_number() {
        let record = of(2_995);
        assert_eq!(record.labels["cpu"], "2");
        assert_eq!((record.count, record.min, record.max), (2_995, Some(1_007), Some(2_995_007)));
        assert!(record.p99_9.is_some() && record.p99_99.is_none());
        assert_eq!(record.not_provable, BTreeMap::from([("p99_99".to_owned(), 29_956)]));
        let keys: Vec<_> = record.ci95.keys().map(String::as_str).collect();
        assert_eq!(keys, ["p50", "p90", "p99", "p99_9"]);
        let p50 = record.p50.unwrap();
        let [low, high] = record.ci95["p50"];
        assert!(low < p50 && p50 < high && high - low < p50 / 10);

        assert!(of(2_994).p99_9.is_none());
        assert_eq!(of(2_994).not_provable["p99_9"], 2_995);
    }

    #[test]
    fn the_histogram_comes_back_with_the_exact_extremes() {
        let record = of(10_000);
        let hist = record.hist().unwrap();
        assert_eq!((hist.count(), hist.min(), hist.max()), (10_000, record.min, record.max));
        assert_eq!(Distribution::of("jitter_gap", "ns", &[("cpu", "2")], &hist), record);
    }

    #[test]
    fn values_beyond_the_range_do_not_make_a_record_contradict_itself() {
        let config = HistConfig { precision_bits: 7, highest: 1_000 };
        for values in [&[5_000, 70_000][..], &[3, 5_000, 70_000]] {
            let mut hist = Hist::new(config);
            values.iter().for_each(|&value| hist.record(value));
            let back = Distribution::of("late", "ns", &[], &hist).hist().unwrap();
            assert_eq!((back.min(), back.max()), (hist.min(), hist.max()));
        }
    }

    #[test]
    fn nothing_recorded_is_a_record_of_nothing() {
        let record = of(0);
        assert_eq!((record.count, record.min, record.p50, record.max), (0, None, None, None));
        assert_eq!(record.not_provable.len(), 5);
        assert!(record.hist().unwrap().is_empty());
    }

    #[test]
    fn a_record_that_contradicts_its_histogram_is_refused() {
        for change in [
            |record: &mut Distribution| record.count += 1,
            |record: &mut Distribution| record.max = Some(u64::MAX),
            |record: &mut Distribution| record.min = None,
            |record: &mut Distribution| record.min = record.max,
        ] {
            let mut record = of(100);
            change(&mut record);
            assert!(matches!(record.hist(), Err(HdrError::Contradiction(_))));
        }
        let mut record = of(100);
        record.hist.truncate(20);
        assert!(record.hist().is_err());
    }
}
