//! From ticks to time: the rate, its error bound, and the place of a tick on CLOCK_MONOTONIC.

use std::time::Duration;

use crate::clock::KernelClock;

/// Length of a calibration. With brackets of some 50 ns it bounds the rate to about 1 ppm.
const SPAN: Duration = Duration::from_millis(60);

/// How many anchors a calibration takes, the two ends included.
const ANCHORS: usize = 7;

/// How often an anchor is tried; the try with the narrowest bracket counts.
const TRIES: usize = 24;

/// Enough reads for their differences to have no divisor in common by chance.
const STEP_READS: usize = 1_000;

/// Ticks to nanoseconds as a fixed-point factor: no division and no float in a hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds per tick, times 2^40.
    factor: u64,
}

impl Rate {
    const SHIFT: u32 = 40;

    /// A nanosecond per tick.
    pub const NANOSECOND: Self = Self { factor: 1 << Self::SHIFT };

    /// From ticks that took so many nanoseconds; [`Rate::NANOSECOND`] if there were none.
    pub fn from_span(ticks: u64, ns: u64) -> Self {
        let factor = (u128::from(ns) << Self::SHIFT).checked_div(u128::from(ticks));
        match factor.and_then(|factor| u64::try_from(factor).ok()) {
            Some(factor) if factor > 0 => Self { factor },
            _ => Self::NANOSECOND,
        }
    }

    /// From a frequency in Hz.
    pub fn from_hz(hz: f64) -> Self {
        Self::from_span((hz * 1e3) as u64, 1_000_000_000_000)
    }

    /// Ticks in nanoseconds, rounded down. Right for every number of ticks whose time fits 64
    /// bits, which is 584 years.
    #[inline]
    pub fn ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.factor)) >> Self::SHIFT) as u64
    }

    /// The least number of ticks that take at least `ns`.
    pub fn ticks(self, ns: u64) -> u64 {
        let ticks = (u128::from(ns) << Self::SHIFT).div_ceil(u128::from(self.factor));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Ticks per second.
    pub fn hz(self) -> f64 {
        1e9 * (1u64 << Self::SHIFT) as f64 / self.factor as f64
    }
}

/// One moment on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The counter.
    pub ticks: u64,
    /// The kernel's clock, in nanoseconds.
    pub ns: u64,
    /// The two were read at most so many ticks apart.
    pub within_ticks: u64,
}

impl Anchor {
    /// Reads the kernel's clock between two reads of the counter, several times, and keeps the
    /// try that took least.
    pub(super) fn take(clock: KernelClock, ticks: impl Fn() -> u64) -> Self {
        let mut best = Self { ticks: 0, ns: 0, within_ticks: u64::MAX };
        for _ in 0..TRIES {
            let before = ticks();
            let ns = clock.now();
            let bracket = ticks().wrapping_sub(before);
            // A counter that ran backwards makes a huge bracket and loses.
            if bracket < best.within_ticks {
                best = Self {
                    ticks: before.wrapping_add(bracket / 2),
                    ns,
                    within_ticks: bracket.div_ceil(2),
                };
            }
        }
        best
    }

    /// An anchor of a clock whose ticks are the kernel's nanoseconds.
    pub(super) fn exact(ns: u64) -> Self {
        Self { ticks: ns, ns, within_ticks: 0 }
    }
}

/// A measured rate and its error bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Ticks to nanoseconds of CLOCK_MONOTONIC.
    pub rate: Rate,
    /// How far the rate can be wrong, from the brackets of the two ends, in parts per million.
    pub error_ppm: f64,
    /// How far a tick within the calibration can be misplaced on CLOCK_MONOTONIC: the widest
    /// bracket plus what the anchors in between deviated from a straight line.
    pub error_ns: u64,
    /// How much faster CLOCK_MONOTONIC ran than CLOCK_MONOTONIC_RAW, in parts per million: what
    /// NTP was correcting meanwhile.
    pub steering_ppm: f64,
    /// How long the calibration took, in nanoseconds.
    pub span_ns: u64,
    /// The counter moves on by multiples of this many ticks: its true resolution. Some processors
    /// count at a frequency below the one they report, 100 MHz in steps of 26 for example.
    pub step_ticks: u64,
}

impl Calibration {
    /// The calibration of a clock whose ticks are the kernel's nanoseconds.
    pub(super) fn exact() -> Self {
        Self {
            rate: Rate::NANOSECOND,
            error_ppm: 0.0,
            error_ns: 0,
            steering_ppm: 0.0,
            span_ns: 0,
            step_ticks: 1,
        }
    }

    /// Takes anchors over [`SPAN`] and works out the rate.
    pub(super) fn measure(ticks: impl Fn() -> u64) -> Self {
        let raw = |_| Anchor::take(KernelClock::MonotonicRaw, &ticks);
        let first_raw = raw(());
        let mut anchors = [Anchor::exact(0); ANCHORS];
        for (index, slot) in anchors.iter_mut().enumerate() {
            if index > 0 {
                std::thread::sleep(SPAN / (ANCHORS as u32 - 1));
            }
            *slot = Anchor::take(KernelClock::Monotonic, &ticks);
        }
        let step_ticks = step(&ticks);
        Self { step_ticks, ..Self::from_anchors(&anchors, first_raw, raw(())) }
    }

    /// The arithmetic of [`measure`](Self::measure).
    fn from_anchors(anchors: &[Anchor], first_raw: Anchor, last_raw: Anchor) -> Self {
        let (Some(first), Some(last)) = (anchors.first(), anchors.last()) else {
            return Self::exact();
        };
        let span = |a: &Anchor, b: &Anchor| (b.ticks.wrapping_sub(a.ticks), b.ns - a.ns);
        let (ticks, span_ns) = span(first, last);
        let rate = Rate::from_span(ticks, span_ns);
        let (raw_ticks, raw_ns) = span(&first_raw, &last_raw);
        let raw_rate = Rate::from_span(raw_ticks, raw_ns);
        let bent = anchors.iter().map(|anchor| {
            let (ticks, ns) = span(first, anchor);
            rate.ns(ticks).abs_diff(ns)
        });
        let widest = anchors.iter().map(|anchor| rate.ns(anchor.within_ticks) + 1).max();
        let both_ends = first.within_ticks + last.within_ticks;
        Self {
            rate,
            error_ppm: both_ends as f64 / ticks.max(1) as f64 * 1e6,
            error_ns: widest.unwrap_or_default() + bent.max().unwrap_or_default(),
            steering_ppm: (raw_rate.hz() / rate.hz() - 1.0) * 1e6,
            span_ns,
            step_ticks: 1,
        }
    }
}

/// The greatest common divisor of what the counter moved on between reads.
fn step(ticks: impl Fn() -> u64) -> u64 {
    let mut before = ticks();
    let mut step = 0;
    for _ in 0..STEP_READS {
        let after = ticks();
        step = greatest_common_divisor(step, after.wrapping_sub(before));
        before = after;
    }
    step.max(1)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => greatest_common_divisor(b, a % b),
    }
}

/// Puts ticks on CLOCK_MONOTONIC by the anchors taken during a run.
///
/// A rate measured before the run drifts from the kernel's clock (1 ppm is 60 µs in a minute, and
/// NTP steers on top); with an anchor every second or so the error stays within the anchors'.
#[derive(Clone, Debug)]
pub struct Timebase {
    anchors: Vec<Anchor>,
    rate: Rate,
}

impl Timebase {
    /// From anchors in the order they were taken; `rate` serves beyond the first and the last.
    pub fn new(anchors: Vec<Anchor>, rate: Rate) -> Self {
        Self { anchors, rate }
    }

    /// The time of a tick on CLOCK_MONOTONIC, in nanoseconds.
    pub fn monotonic_ns(&self, ticks: u64) -> u64 {
        let after = self.anchors.partition_point(|anchor| anchor.ticks <= ticks);
        let (before, next) =
            (after.checked_sub(1).and_then(|i| self.anchors.get(i)), self.anchors.get(after));
        match (before, next) {
            (Some(a), Some(b)) => {
                let part = u128::from(ticks - a.ticks) * u128::from(b.ns.saturating_sub(a.ns));
                a.ns + (part / u128::from(b.ticks - a.ticks)) as u64
            }
            (Some(a), None) => a.ns + self.rate.ns(ticks - a.ticks),
            (None, Some(b)) => b.ns.saturating_sub(self.rate.ns(b.ticks - ticks)),
            (None, None) => self.rate.ns(ticks),
        }
    }

    /// How far a time can be wrong: the widest anchor's bracket, in nanoseconds.
    pub fn error_ns(&self) -> u64 {
        self.anchors.iter().map(|anchor| self.rate.ns(anchor.within_ticks) + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(ticks: u64, ns: u64, within_ticks: u64) -> Anchor {
        Anchor { ticks, ns, within_ticks }
    }

    #[test]
    fn conversion_is_exact_to_a_nanosecond_over_a_century() {
        // 2.6 GHz for 100 years is 8.2e18 ticks; a 64-bit product would have overflowed at 7 s.
        let rate = Rate::from_span(2_600_000_000, 1_000_000_000);
        let century = 100 * 365 * 86_400u64;
        let ns = rate.ns(century * 2_600_000_000);
        let error_ppb = (century * 1_000_000_000).abs_diff(ns) as f64 / (century as f64);
        assert!(error_ppb < 0.01, "{error_ppb} ppb");
        assert_eq!(rate.ns(2_600), 999);
        assert_eq!(rate.ns(2_601), 1_000);
    }

    #[test]
    fn a_threshold_in_ticks_is_never_below_the_one_asked_for() {
        for hz in [1e6, 24e6, 1e9, 2_596_124_000.0, 5.7e9] {
            let rate = Rate::from_hz(hz);
            for ns in [1, 99, 100, 101, 20_000, 1_000_000_007] {
                let ticks = rate.ticks(ns);
                assert!(rate.ns(ticks) >= ns, "{hz} Hz, {ns} ns");
                assert!(ticks <= 1 || rate.ns(ticks - 1) <= ns, "{hz} Hz, {ns} ns");
            }
        }
    }

    #[test]
    fn a_counter_that_stands_still_divides_nothing() {
        assert_eq!(Rate::from_span(0, 50), Rate::NANOSECOND);
        assert_eq!(Rate::from_span(50, 0), Rate::NANOSECOND);
    }

    #[test]
    fn a_calibration_knows_its_error() {
        // 2 GHz; each end is known to 40 ticks, so 80 ticks of 120 million: 0.67 ppm.
        let anchors = [
            anchor(1_000, 0, 40),
            anchor(60_001_000, 30_000_000, 20),
            anchor(120_001_000, 60_000_000, 40),
        ];
        let c = Calibration::from_anchors(&anchors, anchors[0], anchors[2]);
        assert!((c.rate.hz() - 2e9).abs() < 1.0, "{}", c.rate.hz());
        assert!((c.error_ppm - 0.6667).abs() < 0.001, "{}", c.error_ppm);
        assert_eq!(c.error_ns, 21);
        assert!(c.steering_ppm.abs() < 0.001);
    }

    #[test]
    fn the_step_of_a_counter_is_what_all_differences_are_multiples_of() {
        let reads = std::cell::Cell::new(0u64);
        let next = || {
            reads.set(reads.get() + 1);
            1_000 + 26 * (reads.get() * reads.get())
        };
        assert_eq!(step(next), 26);
        assert_eq!(step(|| 5), 1);
    }

    #[test]
    fn a_bent_line_widens_the_error() {
        let anchors =
            [anchor(0, 0, 0), anchor(30_000_000, 30_000_500, 0), anchor(60_000_000, 60_000_000, 0)];
        let c = Calibration::from_anchors(&anchors, anchors[0], anchors[2]);
        assert_eq!(c.error_ns, 501);
    }

    #[test]
    fn steering_is_the_difference_of_the_two_clocks() {
        let steered = [anchor(0, 0, 0), anchor(1_000_000, 1_000_100, 0)];
        let c =
            Calibration::from_anchors(&steered, anchor(0, 0, 0), anchor(1_000_000, 1_000_000, 0));
        assert!((c.steering_ppm - 100.0).abs() < 0.1, "{}", c.steering_ppm);
    }

    #[test]
    fn anchors_bend_the_time_line_where_the_clock_was_steered() {
        let base = Timebase::new(
            vec![anchor(1_000, 10_000, 4), anchor(2_000, 11_000, 6), anchor(3_000, 12_500, 4)],
            Rate::NANOSECOND,
        );
        assert_eq!(base.monotonic_ns(1_500), 10_500);
        assert_eq!(base.monotonic_ns(2_500), 11_750);
        assert_eq!(base.monotonic_ns(3_000), 12_500);
        // Beyond the ends the rate carries on.
        assert_eq!(base.monotonic_ns(500), 9_500);
        assert_eq!(base.monotonic_ns(3_100), 12_600);
        assert_eq!(base.error_ns(), 7);
    }

    #[test]
    fn time_of_ticks_never_runs_backwards() {
        let base = Timebase::new(
            vec![anchor(100, 1_000, 0), anchor(400, 1_200, 0), anchor(500, 1_900, 0)],
            Rate::from_hz(2e9),
        );
        let times: Vec<_> = (0..700).map(|tick| base.monotonic_ns(tick)).collect();
        assert!(times.is_sorted());
    }
}
