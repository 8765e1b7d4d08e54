//! What a sample proves about a quantile: confidence intervals that assume nothing of the
//! distribution's shape, and the refusal to name a quantile that too few values support.
//!
//! # Method
//! The number of values at or below the true quantile `q` of a continuous distribution is binomial
//! with parameters `n` and `q`, whatever the distribution. So the `l`-th and `u`-th smallest values
//! enclose the quantile with probability `P(l <= B < u)` (Hahn and Meeker, *Statistical
//! Intervals*, section 5.2; David and Nagaraja, *Order Statistics*, section 7.1). Ties and the
//! buckets of a histogram only make it more probable: the bounds given are the lower end of the
//! lower value's bucket and the upper end of the upper value's.

use crate::Hist;

/// One minus the confidence of [`quantile`]'s intervals.
const ALPHA: f64 = 0.05;

/// Above this variance of the binomial (its bulk has thousands of terms) the normal approximation is
/// used: there it moves a bound by a rank or two of thousands.
const EXACT_UP_TO_VARIANCE: f64 = 1e6;

/// Bounds of a value, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Lower bound.
    pub low: u64,
    /// Upper bound.
    pub high: u64,
}

/// A quantile and what the sample proves of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// Which one: 0 to 1.
    pub q: f64,
    /// Its value in the sample; `None` if there are fewer than [`samples_needed`] values.
    pub value: Option<u64>,
    /// Bounds that enclose the true quantile with a confidence of at least 95 %; there whenever
    /// `value` is.
    pub interval: Option<Interval>,
}

/// How many values it takes before a quantile can be enclosed with 95 % confidence at all: the
/// smallest `n` with `1 - q^n - (1-q)^n >= 0.95`, where the smallest and the largest value are the
/// bounds. 2,995 for P99.9. `u64::MAX` for 0 and 1 (and outside): no sample encloses an extreme.
pub fn samples_needed(q: f64) -> u64 {
    samples_for(q, ALPHA)
}

/// A quantile of the recorded values with its confidence interval.
pub fn quantile(hist: &Hist, q: f64) -> Quantile {
    let interval = interval(hist, q, ALPHA);
    Quantile { q, value: interval.and_then(|_| hist.value_at(q)), interval }
}

/// What became of a quantile between two measurements. Lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Lower, beyond chance.
    Better,
    /// Higher, beyond chance.
    Worse,
    /// No change could be shown; the interval says how large one could still be.
    Same,
    /// Too few values on one side.
    NotProvable,
}

impl Change {
    /// The name used in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::NotProvable => "not provable",
        }
    }
}

/// The change of a quantile from one measurement to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The verdict.
    pub change: Change,
    /// The change of the sample's quantile in percent of the first measurement's; `None` if either
    /// is not provable or the first is 0.
    pub pct: Option<f64>,
    /// Bounds of the true change in percent, with a confidence of at least 95 %; `None` if either
    /// quantile is not provable or the first one may be 0.
    pub interval_pct: Option<[f64; 2]>,
}

/// How a quantile changed from `a` to `b`.
///
/// Each side gets an interval of 97.5 % confidence; that both hold has at least 95 % (Bonferroni),
/// so the change lies between `b.low / a.high` and `b.high / a.low`. Better or worse needs intervals
/// that do not touch, which is a false alarm in less than 5 % of the pairs that do not differ, and in
/// practice in far fewer. That is wanted: a comparison shows dozens of quantiles at once, and an
/// alarm in every twentieth would be one in every comparison. The price is power, and somewhat more
/// values than [`samples_needed`]: 3,688 for P99.9.
pub fn difference(a: &Hist, b: &Hist, q: f64) -> Difference {
    let bounds = interval(a, q, ALPHA / 2.0).zip(interval(b, q, ALPHA / 2.0));
    let Some((before, after)) = bounds else {
        return Difference { change: Change::NotProvable, pct: None, interval_pct: None };
    };
    let change = match () {
        () if after.high < before.low => Change::Better,
        () if after.low > before.high => Change::Worse,
        () => Change::Same,
    };
    let pct =
        |from: u64, to: u64| (from > 0).then(|| (to as f64 - from as f64) / from as f64 * 100.0);
    let values = a.value_at(q).zip(b.value_at(q));
    Difference {
        change,
        pct: values.and_then(|(from, to)| pct(from, to)),
        interval_pct: pct(before.high, after.low)
            .zip(pct(before.low, after.high))
            .map(|(low, high)| [low, high]),
    }
}

/// Whether more than a fraction `1 - q` of a distribution lies above a limit, judged by `above` of
/// `n` values: true if as many would come from a conforming one with a probability of at most 5 %.
pub(crate) fn exceeds(n: u64, above: u64, q: f64) -> bool {
    above > 0 && Binomial::new(n, 1.0 - q).at_least(above) <= ALPHA
}

fn samples_for(q: f64, alpha: f64) -> u64 {
    let missed = |n: u64| {
        let n = n as f64;
        q.powf(n) + (1.0 - q).powf(n)
    };
    if !(q > 0.0 && q < 1.0) {
        return u64::MAX;
    }
    // The larger of the two terms decides; the other one adds at most a few values.
    let mut n = (alpha.ln() / q.max(1.0 - q).ln()).floor().max(1.0) as u64;
    while missed(n) > alpha {
        n += 1;
    }
    n
}

fn interval(hist: &Hist, q: f64, alpha: f64) -> Option<Interval> {
    let (low, high) = ranks(hist.count(), q, alpha)?;
    Some(Interval { low: hist.rank_bounds(low)?.0, high: hist.rank_bounds(high)?.1 })
}

/// The ranks (from 1) of the two values that enclose the quantile. Half of `alpha` is spent at
/// either end; an end that cannot be had for that price (there are too few values beyond the
/// quantile) is set to the extreme value, and the other end gets what is left.
fn ranks(n: u64, q: f64, alpha: f64) -> Option<(u64, u64)> {
    if n < samples_for(q, alpha) {
        return None;
    }
    let below = Binomial::new(n, q);
    let (miss_low, miss_high) = ((1.0 - q).powf(n as f64), q.powf(n as f64));
    let half = alpha / 2.0;
    let low = below.highest_with_below_at_most(half.min(alpha - miss_high));
    let high = Binomial::new(n, 1.0 - q).highest_with_below_at_most(half.min(alpha - miss_low));
    // Counted from the other end: the u-th smallest value is the (n + 1 - u)-th largest.
    Some((low, n + 1 - high))
}

/// A binomial distribution, summed exactly where that is affordable.
struct Binomial {
    n: u64,
    p: f64,
}

impl Binomial {
    fn new(n: u64, p: f64) -> Self {
        Self { n, p }
    }

    fn mean(&self) -> f64 {
        self.n as f64 * self.p
    }

    fn variance(&self) -> f64 {
        self.mean() * (1.0 - self.p)
    }

    /// The largest rank `k >= 1` with `P(B < k) <= budget`; 1 if there is none.
    fn highest_with_below_at_most(&self, budget: f64) -> u64 {
        match self.variance() > EXACT_UP_TO_VARIANCE {
            true => self.highest_approximately(budget),
            false => self.highest_exactly(budget),
        }
    }

    fn highest_exactly(&self, budget: f64) -> u64 {
        let (first, weights) = self.weights();
        let allowed = budget * weights.iter().sum::<f64>();
        let mut below = 0.0;
        let affordable = weights.iter().take_while(|&&weight| {
            below += weight;
            below <= allowed
        });
        (first + affordable.count() as u64).clamp(1, self.n)
    }

    fn highest_approximately(&self, budget: f64) -> u64 {
        // P(B <= k - 1) is taken at k - 1/2 (continuity).
        let k = self.mean() + normal_quantile(budget) * self.variance().sqrt() + 0.5;
        (k.floor().max(1.0) as u64).min(self.n)
    }

    /// `P(B >= k)`.
    fn at_least(&self, k: u64) -> f64 {
        if self.variance() > EXACT_UP_TO_VARIANCE {
            return 1.0 - normal_cdf((k as f64 - 0.5 - self.mean()) / self.variance().sqrt());
        }
        let (first, weights) = self.weights();
        let upper = k.saturating_sub(first) as usize;
        weights.iter().skip(upper).sum::<f64>() / weights.iter().sum::<f64>()
    }

    /// The probabilities of all outcomes that matter, scaled so that the most probable has 1, and
    /// the first of those outcomes. Built outwards from the mode by the ratio of neighbours, so
    /// that nothing underflows and no gamma function is needed.
    fn weights(&self) -> (u64, Vec<f64>) {
        const NEGLIGIBLE: f64 = 1e-20;
        let (n, odds) = (self.n as f64, self.p / (1.0 - self.p));
        let mode = (((n + 1.0) * self.p).floor() as u64).min(self.n);
        let mut lower = Vec::new();
        let mut weight = 1.0;
        for k in (1..=mode).rev() {
            weight *= k as f64 / ((n - k as f64 + 1.0) * odds);
            if weight < NEGLIGIBLE {
                break;
            }
            lower.push(weight);
        }
        let first = mode - lower.len() as u64;
        lower.reverse();
        let mut weights = lower;
        weights.push(1.0);
        weight = 1.0;
        for k in mode..self.n {
            weight *= (n - k as f64) * odds / (k as f64 + 1.0);
            if weight < NEGLIGIBLE {
                break;
            }
            weights.push(weight);
        }
        (first, weights)
    }
}

/// The standard normal distribution function: Abramowitz and Stegun 26.2.17, error below 7.5e-8.
fn normal_cdf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Its inverse, by bisection: this is not a hot path.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal_cdf(middle) < p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `P(B = k)` for every `k`, from sums of logarithms: slow, and unlike the code under test.
    fn probabilities(n: u64, p: f64) -> Vec<f64> {
        let mut log_factorials = vec![0.0];
        for k in 1..=n {
            log_factorials.push(log_factorials[k as usize - 1] + (k as f64).ln());
        }
        let log = |k: u64| log_factorials[k as usize];
        (0..=n)
            .map(|k| {
                let ways = log(n) - log(k) - log(n - k);
                (ways + k as f64 * p.ln() + (n - k) as f64 * (1.0 - p).ln()).exp()
            })
            .collect()
    }

    #[test]
    fn the_samples_needed_are_the_published_ones() {
        for (q, n) in [(0.5, 6), (0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2_995)] {
            assert_eq!(samples_needed(q), n, "{q}");
            assert_eq!(samples_needed(1.0 - q), n, "{q}");
        }
        assert_eq!(samples_needed(0.9999), 29_956);
        assert_eq!(samples_for(0.999, ALPHA / 2.0), 3_688);
        for extreme in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!(samples_needed(extreme), u64::MAX);
        }
    }

    #[test]
    fn the_ranks_are_the_tabulated_ones() {
        // Conover, Practical Nonparametric Statistics: the median of 20 lies between ranks 6 and 15.
        assert_eq!(ranks(20, 0.5, ALPHA), Some((6, 15)));
        assert_eq!(ranks(5, 0.5, ALPHA), None);
        assert_eq!(ranks(6, 0.5, ALPHA), Some((1, 6)));
        assert_eq!(ranks(2_994, 0.999, ALPHA), None);
        assert_eq!(ranks(2_995, 0.999, ALPHA).map(|(_, high)| high), Some(2_995));
    }

    proptest! {
        #[test]
        fn ranks_enclose_the_quantile_with_95_percent_and_no_more_than_needed(
            n in 1u64..3_000, q in prop_oneof![0.001f64..0.999, Just(0.5), Just(0.9), Just(0.99)],
        ) {
            let Some((low, high)) = ranks(n, q, ALPHA) else {
                prop_assert!(q.powf(n as f64) + (1.0 - q).powf(n as f64) > ALPHA);
                return Ok(());
            };
            let p = probabilities(n, q);
            let covered = |low: u64, high: u64| p[low as usize..high as usize].iter().sum::<f64>();
            prop_assert!(1 <= low && low < high && high <= n);
            prop_assert!(covered(low, high) >= 0.95 - 1e-9, "{low}..{high}: {}", covered(low, high));
            // Each end is as far in as its half of the 5 % allows, or what the other end left of it.
            let below: f64 = p[..=low as usize].iter().sum();
            let above: f64 = p[high as usize - 1..].iter().sum();
            let budget = |missed: f64| (ALPHA / 2.0).min(ALPHA - missed) - 1e-9;
            prop_assert!(below > budget(q.powf(n as f64)));
            prop_assert!(above > budget((1.0 - q).powf(n as f64)));
        }

        #[test]
        fn the_upper_tail_is_the_brute_force_sum(n in 1u64..2_000, p in 0.001f64..0.999, at in 0.0f64..1.0) {
            let k = (at * n as f64) as u64;
            let expected: f64 = probabilities(n, p)[k as usize..].iter().sum();
            prop_assert!((Binomial::new(n, p).at_least(k) - expected).abs() < 1e-9);
        }

        #[test]
        fn the_approximation_takes_over_without_a_step(n in 4_000_000u64..40_000_000, q in 0.2f64..0.8) {
            let binomial = Binomial::new(n, q);
            for budget in [0.0125, 0.025] {
                let (exact, approximate) =
                    (binomial.highest_exactly(budget), binomial.highest_approximately(budget));
                prop_assert!(exact.abs_diff(approximate) <= 1, "{exact} {approximate}");
            }
        }
    }

    #[test]
    fn the_approximation_holds_in_the_tail_as_well() {
        let binomial = Binomial::new(4_000_000_000, 0.999);
        let exact = binomial.highest_exactly(0.025);
        let approximate = binomial.highest_approximately(0.025);
        assert!(exact.abs_diff(approximate) <= 2, "{exact} {approximate}");
        assert!((normal_quantile(0.025) + 1.959_964).abs() < 1e-5);
    }

    #[test]
    fn many_values_above_a_limit_are_proof_even_among_few() {
        assert!(!exceeds(100, 0, 0.999));
        assert!(!exceeds(100, 1, 0.999));
        assert!(exceeds(100, 2, 0.999));
        assert!(exceeds(2, 2, 0.9));
    }
}
