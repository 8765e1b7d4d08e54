//! The shape of a distribution: its percentile curve and its octaves, from the whole histogram.

use quietcore_measure::{Distribution, Hist, samples_needed};

/// A distribution's histogram and its exact extremes.
#[derive(Debug)]
pub(crate) struct Shape {
    hist: Hist,
    min: u64,
    max: u64,
}

impl Shape {
    /// The shape, or why there is none to draw.
    pub(crate) fn of(d: &Distribution) -> Result<Self, String> {
        if d.count == 0 {
            return Err("no samples".to_owned());
        }
        let hist = d.hist().map_err(|error| error.to_string())?;
        let (Some(min), Some(max)) = (hist.min(), hist.max()) else {
            return Err("the histogram is empty".to_owned());
        };
        Ok(Self { hist, min, max })
    }

    pub(crate) fn min(&self) -> u64 {
        self.min
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// At most `most` points of the percentile curve: "nines", log10(1 / (1 - q)), and value. It
    /// begins with the minimum at 0 nines and ends with the maximum, at log10(count) nines.
    pub(crate) fn curve(&self, most: usize) -> Vec<(f64, u64)> {
        let end = (self.hist.count() as f64).log10();
        let steps = most.max(2) - 1;
        let mut points = vec![(0.0, self.min)];
        for step in 1..=steps {
            let nines = end * step as f64 / steps as f64;
            let value = if step == steps {
                self.max
            } else {
                let seen = self.hist.value_at(fraction(nines)).unwrap_or(self.max);
                seen.clamp(self.min, self.max)
            };
            points.push((nines, value));
        }
        without_inner(points)
    }

    /// How many samples lie in each power of two, from the lowest to the highest occupied one.
    /// The first value is the exponent of the lowest.
    pub(crate) fn octaves(&self) -> (u32, Vec<u64>) {
        let octave = |value: u64| value.max(1).ilog2();
        let first = octave(self.min);
        let mut counts = vec![0u64; (octave(self.max) - first) as usize + 1];
        for (_, high, count) in self.hist.buckets() {
            let at = octave(high.clamp(self.min, self.max)) - first;
            counts[at as usize] += count;
        }
        (first, counts)
    }
}

/// Nines to the fraction of values below: 0 → 0, 1 → 0.9, 3 → 0.999.
pub(crate) fn fraction(nines: f64) -> f64 {
    1.0 - 10f64.powf(-nines)
}

/// Where a percentile stands on the axis of nines: 0.999 → 3.
pub(crate) fn nines(fraction: f64) -> f64 {
    -(1.0 - fraction).log10()
}

/// Up to how many nines this number of samples proves anything; 0 if nothing.
pub(crate) fn provable_nines(count: u64) -> f64 {
    let (mut proven, mut unproven) = (0.0, (count.max(1) as f64).log10());
    for _ in 0..40 {
        let middle = (proven + unproven) / 2.0;
        // Below the median it is the other tail that runs out of samples.
        let q = fraction(middle).max(0.5);
        if samples_needed(q) <= count { proven = middle } else { unproven = middle }
    }
    proven
}

/// Drops points in the middle of a level stretch; the line stays the same.
fn without_inner(points: Vec<(f64, u64)>) -> Vec<(f64, u64)> {
    let mut kept: Vec<(f64, u64)> = Vec::with_capacity(points.len());
    for point in points {
        if let [.., (_, a), (_, b)] = kept[..] {
            if a == b && b == point.1 {
                kept.pop();
            }
        }
        kept.push(point);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_measure::HistConfig;

    fn distribution(values: impl IntoIterator<Item = u64>) -> Distribution {
        let mut hist = Hist::new(HistConfig::default());
        values.into_iter().for_each(|value| hist.record(value));
        Distribution::of("gap", "ns", &[], &hist)
    }

    #[test]
    fn a_curve_runs_from_the_minimum_to_the_exact_maximum() {
        let shape = Shape::of(&distribution(1..=100_003)).unwrap();
        let curve = shape.curve(100);
        assert_eq!(curve.first(), Some(&(0.0, 1)));
        let &(end, max) = curve.last().unwrap();
        assert_eq!(max, 100_003);
        assert!((end - 5.0).abs() < 1e-3, "{end}");
        assert!(curve.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
        // P90 stands at one nine, within the histogram's 0.8 %.
        let p90 = curve.iter().find(|p| p.0 >= 1.0).unwrap().1 as f64;
        assert!((p90 / 90_000.0 - 1.0).abs() < 0.02, "{p90}");
    }

    #[test]
    fn a_level_stretch_is_two_points() {
        let curve = Shape::of(&distribution(vec![7; 1000])).unwrap().curve(200);
        assert_eq!(curve.len(), 2);
    }

    #[test]
    fn octaves_hold_every_sample() {
        let (first, counts) = Shape::of(&distribution([5, 7, 8, 100, 100])).unwrap().octaves();
        assert_eq!(first, 2);
        assert_eq!(counts, [2, 1, 0, 0, 2]);
    }

    #[test]
    fn what_a_sample_proves_agrees_with_the_number_needed() {
        for (count, q) in [(2_995, 0.999), (29_956, 0.9999), (10_000_000, 0.99999)] {
            let proven = fraction(provable_nines(count));
            assert!(samples_needed(proven) <= count, "{count}");
            assert!(proven >= q - 1e-9, "{count}: {proven}");
        }
        assert!(fraction(provable_nines(2_994)) < 0.999);
        assert_eq!(provable_nines(0), 0.0);
        assert!(provable_nines(3) < 1e-9);
    }

    #[test]
    fn what_cannot_be_drawn_says_why() {
        let mut broken = distribution([1, 2]);
        broken.hist = "!".to_owned();
        assert!(!Shape::of(&broken).unwrap_err().is_empty());
        assert_eq!(Shape::of(&Distribution::default()).unwrap_err(), "no samples");
    }
}
