//! Logarithmic and linear axes in a plot of 1000 by 1000 units.

/// Width and height of every plot: the page stretches it, the labels stand beside it in HTML.
pub(super) const SIDE: f64 = 1000.0;

/// A logarithmic axis from bottom to top.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    low: f64,
    high: f64,
}

impl Log {
    /// An axis around these values, rounded outwards to 1, 2 or 5 times a power of ten. What is
    /// below 1 is drawn at 1: a logarithm has no place for 0.
    pub(super) fn around(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut min, mut max) = (f64::INFINITY, 1.0f64);
        for value in values.into_iter().filter(|v| v.is_finite()) {
            min = min.min(value.max(1.0));
            max = max.max(value);
        }
        let min = if min.is_finite() { min } else { 1.0 };
        let low = rounded(min, |step, v| step <= v).unwrap_or(1.0);
        let high = rounded(max, |step, v| step >= v).unwrap_or(max);
        Self { low, high: if high > low { high } else { low * 10.0 } }
    }

    /// The bottom of the axis.
    pub(super) fn low(self) -> f64 {
        self.low
    }

    /// The top of the axis.
    pub(super) fn high(self) -> f64 {
        self.high
    }

    /// Units from the top.
    pub(super) fn y(self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).log10() / (self.high / self.low).log10();
        SIDE * (1.0 - share.min(1.0))
    }

    /// Values to label, lowest first: powers of ten, thinned to at most `most`; finer steps where
    /// the axis spans less than two of them.
    pub(super) fn ticks(self, most: usize) -> Vec<f64> {
        let steps: &[f64] = if self.high / self.low < 100.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let all: Vec<f64> = (first..=last)
            .flat_map(|e| steps.iter().map(move |step| step * 10f64.powi(e)))
            .filter(|v| (self.low * 0.999..=self.high * 1.001).contains(v))
            .collect();
        let stride = all.len().div_ceil(most.max(1)).max(1);
        all.into_iter().step_by(stride).collect()
    }
}

/// The nearest of 1, 2, 5 times a power of ten that satisfies `fits`, from the side it is on.
fn rounded(value: f64, fits: impl Fn(f64, f64) -> bool) -> Option<f64> {
    let exponent = value.log10().floor() as i32;
    let steps = (exponent - 1..=exponent + 1)
        .flat_map(|e| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(e)))
        .filter(|&step| fits(step, value));
    steps.min_by(|a, b| (a - value).abs().total_cmp(&(b - value).abs()))
}

/// About `most` round values from 0 to `end`.
pub(super) fn linear_ticks(end: f64, most: usize) -> Vec<f64> {
    if end.is_nan() || end <= 0.0 {
        return vec![0.0];
    }
    let rough = end / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|&s| s >= rough);
    let step = step.unwrap_or(rough);
    (0..=most).map(|i| i as f64 * step).take_while(|&v| v <= end * 1.0001).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_encloses_its_values_with_round_ends() {
        let axis = Log::around([84.0, 389_000.0]);
        assert_eq!((axis.low(), axis.high()), (50.0, 500_000.0));
        assert_eq!(axis.y(50.0), SIDE);
        assert_eq!(axis.y(500_000.0), 0.0);
        assert_eq!(axis.ticks(10), [100.0, 1000.0, 10_000.0, 100_000.0]);
        assert_eq!(axis.ticks(2), [100.0, 10_000.0]);
    }

    #[test]
    fn an_axis_without_room_is_given_some() {
        for values in [vec![], vec![0.0], vec![100.0, 100.0], vec![f64::NAN]] {
            let axis = Log::around(values.clone());
            assert!(axis.high() > axis.low(), "{values:?}");
            assert!(axis.y(0.0).is_finite());
        }
        assert!(Log::around([100.0, 180.0]).ticks(8).len() >= 2);
    }

    #[test]
    fn linear_ticks_are_round_and_stay_inside() {
        assert_eq!(linear_ticks(10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear_ticks(0.0, 5), [0.0]);
        assert!(linear_ticks(62.4e9, 6).iter().all(|&t| t <= 62.4e9));
    }
}
