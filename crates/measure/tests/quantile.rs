//! Intervals and verdicts held against what they promise, by simulation with a fixed seed.

use quietcore_measure::{Change, Hist, HistConfig, difference, quantile, samples_needed};

/// xorshift64*, because a simulation has to be the same one every time.
struct Random(u64);

impl Random {
    /// Between 0 and 1, 0 excluded.
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Latency-like: a floor of 5 us and an exponential tail with a mean of 10 us.
    fn latency(&mut self) -> f64 {
        5_000.0 - 10_000.0 * self.uniform().ln()
    }
}

/// The true quantile of [`Random::latency`].
fn true_quantile(q: f64) -> f64 {
    5_000.0 - 10_000.0 * (1.0 - q).ln()
}

fn sample(random: &mut Random, n: u64, scale: f64) -> Hist {
    let mut hist = Hist::new(HistConfig { precision_bits: 10, highest: 1_000_000 });
    (0..n).for_each(|_| hist.record((random.latency() * scale).round() as u64));
    hist
}

#[test]
fn intervals_cover_the_true_quantile_as_often_as_they_promise() {
    let mut random = Random(1);
    for (q, n) in [(0.5, 25), (0.5, 400), (0.9, 100), (0.99, 300), (0.99, 2_000), (0.999, 3_100)] {
        let trials = 1_000;
        let covered = (0..trials)
            .filter(|_| {
                let bounds = quantile(&sample(&mut random, n, 1.0), q).interval.unwrap();
                (bounds.low as f64..=bounds.high as f64).contains(&true_quantile(q))
            })
            .count();
        // Promised are 95 %; six standard deviations of the simulation are 4 %, the ranks'
        // whole numbers and the buckets' width are on the safe side.
        assert!(covered * 100 >= trials * 94, "P{} of {n}: {covered}", q * 100.0);
        assert!(covered < trials, "P{} of {n}: the intervals are too wide to be wrong", q * 100.0);
    }
}

#[test]
fn a_quantile_is_claimed_only_with_its_interval() {
    let mut random = Random(2);
    for q in [0.01, 0.5, 0.9, 0.99, 0.999] {
        let needed = samples_needed(q);
        let few = quantile(&sample(&mut random, needed - 1, 1.0), q);
        assert_eq!((few.value, few.interval), (None, None), "{q}");
        let enough = quantile(&sample(&mut random, needed, 1.0), q);
        let (value, bounds) = (enough.value.unwrap(), enough.interval.unwrap());
        assert!((bounds.low..=bounds.high).contains(&value), "{q}");
    }
    assert_eq!(quantile(&Hist::new(HistConfig::default()), 0.5).value, None);
}

#[test]
fn pairs_that_do_not_differ_rarely_raise_an_alarm() {
    let mut random = Random(3);
    for (q, n) in [(0.5, 200), (0.99, 2_000), (0.999, 5_000)] {
        let pairs = 400;
        let alarms = (0..pairs)
            .filter(|_| {
                let (a, b) = (sample(&mut random, n, 1.0), sample(&mut random, n, 1.0));
                difference(&a, &b, q).change != Change::Same
            })
            .count();
        assert!(alarms * 100 <= pairs * 5, "P{} of {n}: {alarms}", q * 100.0);
    }
}

#[test]
fn a_rise_of_twenty_percent_is_found_and_enclosed() {
    let mut random = Random(4);
    for (q, n) in [(0.5, 2_000), (0.99, 10_000), (0.999, 40_000)] {
        let pairs = 40;
        let (mut found, mut enclosed) = (0, 0);
        for _ in 0..pairs {
            let (a, b) = (sample(&mut random, n, 1.0), sample(&mut random, n, 1.2));
            let [low, high] = difference(&a, &b, q).interval_pct.unwrap();
            found += u32::from(difference(&a, &b, q).change == Change::Worse);
            found += u32::from(difference(&b, &a, q).change == Change::Better);
            enclosed += u32::from((low..=high).contains(&20.0));
        }
        assert!(found >= 2 * pairs * 95 / 100, "P{} of {n}: {found}", q * 100.0);
        assert!(enclosed >= pairs * 94 / 100, "P{} of {n}: {enclosed}", q * 100.0);
    }
}

#[test]
fn too_few_values_on_either_side_prove_no_change() {
    let mut random = Random(5);
    let (few, many) = (sample(&mut random, 3_687, 1.0), sample(&mut random, 3_688, 9.0));
    let unproven = difference(&few, &many, 0.999);
    assert_eq!((unproven.change, unproven.pct), (Change::NotProvable, None));
    assert_eq!(difference(&many, &few, 0.999).change, Change::NotProvable);
    assert_eq!(difference(&many, &many, 0.999).change, Change::Same);
}

#[test]
fn a_rise_from_nothing_has_a_verdict_but_no_percentage() {
    let mut nothing = Hist::new(HistConfig::default());
    nothing.record_n(0, 1_000);
    let mut something = Hist::new(HistConfig::default());
    something.record_n(7, 1_000);
    let risen = difference(&nothing, &something, 0.5);
    assert_eq!((risen.change, risen.pct, risen.interval_pct), (Change::Worse, None, None));
    assert_eq!(difference(&something, &nothing, 0.5).pct, Some(-100.0));
}
