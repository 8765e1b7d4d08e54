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
