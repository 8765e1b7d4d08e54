//! A service level over sliding windows: "P99.9 below 150 us over *any* 10 s".
//!
//! An average of percentiles hides the minute in which half the requests were late. Here every
//! window's histogram is merged from short slots and its quantile taken from the merged one.
//!
//! # Granularity
//! Windows start at multiples of the slot length. A burst that fits into `span - slot` lies wholly
//! within one of them; between two starts the exact extreme over all real-valued starts may be
//! missed by what enters or leaves within one slot. Shorter slots see more and cost memory.

use crate::hist::rank;
use crate::quantile::{exceeds, samples_needed};
use crate::{Hist, HistConfig, Nanos};

/// Length, granularity and memory of a [`Window`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// Length of the windows, rounded up to whole slots.
    pub span: Nanos,
    /// Distance of their starts; at least 1 ns.
    pub slot: Nanos,
    /// How far back windows are kept, at least `span`. One histogram is held per slot.
    pub history: Nanos,
    /// Resolution and range of the values.
    pub hist: HistConfig,
}

impl Default for WindowConfig {
    /// Ten seconds, every second, over the last minute.
    fn default() -> Self {
        Self {
            span: Nanos::from_secs(10),
            slot: Nanos::from_secs(1),
            history: Nanos::from_secs(60),
            hist: HistConfig::default(),
        }
    }
}

/// A window and the quantile in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// Start, included.
    pub start: Nanos,
    /// End, excluded.
    pub end: Nanos,
    /// The quantile.
    pub value: u64,
    /// How many values it is taken from.
    pub samples: u64,
}

/// What the windows say about a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaches {
    /// Windows that break it, by time.
    pub breaches: Vec<Worst>,
    /// Windows with too few values to tell: they neither pass nor fail.
    pub not_provable: u64,
    /// Windows that keep it.
    pub kept: u64,
}

impl Breaches {
    /// Whether the limit was provably kept: there was a window, and each one kept it.
    pub fn pass(&self) -> bool {
        self.breaches.is_empty() && self.not_provable == 0 && self.kept > 0
    }
}

/// A ring of slot histograms. Time is a parameter; nothing is allocated after construction except
/// by the questions.
#[derive(Clone, Debug)]
pub struct Window {
    slot: u64,
    /// Slots per window.
    span: u64,
    /// Slot `i` of time lives at `i % ring.len()`.
    ring: Vec<Hist>,
    /// First and newest slot of time seen.
    seen: Option<(u64, u64)>,
    /// Start of the slot recorded into last and its place in the ring: spares most records a
    /// division.
    open: (u64, usize),
    late: u64,
}

impl Window {
    /// A window without exact limits: a value counts as above a limit when its bucket's upper
    /// bound is.
    pub fn new(config: WindowConfig) -> Self {
        Self::with_limits(config, &[])
    }

    /// A window that judges these limits exactly ([`Hist::with_edges`]).
    pub fn with_limits(config: WindowConfig, limits: &[u64]) -> Self {
        let slot = config.slot.0.max(1);
        let span = config.span.0.div_ceil(slot).max(1);
        let slots = config.history.0.div_ceil(slot).max(span);
        Self {
            slot,
            span,
            ring: (0..slots).map(|_| Hist::with_edges(config.hist, limits)).collect(),
            seen: None,
            // No time is at or after this start, so the first record looks.
            open: (u64::MAX, 0),
            late: 0,
        }
    }

    /// Records a value seen at `now`.
    #[inline]
    pub fn record(&mut self, now: Nanos, value: u64) {
        let (start, index) = self.open;
        if now.0 < start || now.0 - start >= self.slot {
            return self.record_elsewhere(now, value);
        }
        if let Some(hist) = self.ring.get_mut(index) {
            hist.record(value);
        }
    }

    fn record_elsewhere(&mut self, now: Nanos, value: u64) {
        let slot = now.0 / self.slot;
        if !self.turn_to(slot) {
            self.late += 1;
            return;
        }
        let index = (slot % self.ring.len() as u64) as usize;
        self.open = (slot * self.slot, index);
        if let Some(hist) = self.ring.get_mut(index) {
            hist.record(value);
        }
    }

    /// Lets time pass without a value, so that windows end that nothing was recorded in.
    pub fn advance(&mut self, now: Nanos) {
        // Time that has already passed changes nothing.
        let _ = self.turn_to(now.0 / self.slot);
        self.open = (u64::MAX, 0);
    }

    /// Values that came after their slot had left the history; they are in no window.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The window with the highest provable quantile; `None` if no whole window has enough values.
    pub fn worst(&self, q: f64) -> Option<Worst> {
        self.windows()
            .filter(|(_, hist)| hist.count() >= samples_needed(q))
            .filter_map(|(start, hist)| self.describe(start, &hist, q))
            .max_by_key(|worst| (worst.value, std::cmp::Reverse(worst.start)))
    }

    /// Holds every whole window in the history against `limit`.
    ///
    /// A window breaks the limit when its quantile `q` is above it. With fewer than
    /// [`samples_needed`] values it still breaks it when so many values are above the limit that
    /// chance is excluded (95 %): an outage that lets few requests through is not hidden by that.
    pub fn breaches(&self, limit: u64, q: f64) -> Breaches {
        let mut found = Breaches::default();
        for (start, hist) in self.windows() {
            let n = hist.count();
            let above = hist.above(limit).unwrap_or_else(|| hist.above_bucketwise(limit));
            let enough = n >= samples_needed(q);
            let breach = match enough {
                true => above > n - rank(q, n),
                false => exceeds(n, above, q),
            };
            match breach {
                true => found.breaches.extend(self.describe(start, &hist, q)),
                false if enough => found.kept += 1,
                false => found.not_provable += 1,
            }
        }
        found
    }

    /// Makes `slot` usable: moves the ring forward if it is new. False if it is no longer kept.
    fn turn_to(&mut self, slot: u64) -> bool {
        let len = self.ring.len() as u64;
        let Some((first, newest)) = self.seen else {
            self.seen = Some((slot, slot));
            return true;
        };
        if slot > newest {
            for new in (newest + 1..=slot).rev().take(self.ring.len()) {
                if let Some(hist) = self.ring.get_mut((new % len) as usize) {
                    hist.clear();
                }
            }
        } else if newest - slot >= len {
            return false;
        }
        self.seen = Some((first.min(slot), newest.max(slot)));
        true
    }

    /// Every whole window in the history: its first slot and its merged histogram.
    fn windows(&self) -> impl Iterator<Item = (u64, Hist)> + '_ {
        let len = self.ring.len() as u64;
        let starts = self.seen.map_or(0..0, |(first, newest)| {
            let oldest = first.max((newest + 1).saturating_sub(len));
            oldest..(newest + 2).saturating_sub(self.span).max(oldest)
        });
        starts.filter_map(move |start| {
            let mut slots = (start..start + self.span)
                .filter_map(move |slot| self.ring.get((slot % len) as usize));
            let mut merged = slots.next()?.clone();
            for slot in slots {
                merged.merge(slot).ok()?;
            }
            Some((start, merged))
        })
    }

    fn describe(&self, start: u64, hist: &Hist, q: f64) -> Option<Worst> {
        Some(Worst {
            start: Nanos(start * self.slot),
            end: Nanos((start + self.span) * self.slot),
            value: hist.value_at(q)?,
            samples: hist.count(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const LIMIT: u64 = 150_000;

    fn config(span: u64, slot: u64, history: u64) -> WindowConfig {
        WindowConfig {
            span: Nanos::from_secs(span),
            slot: Nanos::from_secs(slot),
            history: Nanos::from_secs(history),
            hist: HistConfig::default(),
        }
    }

    /// A thousand requests per second, each with the latency that its second (in ms) has.
    fn load(window: &mut Window, ms: std::ops::Range<u64>, latency: impl Fn(u64) -> u64) {
        for at in ms {
            window.record(Nanos(at * MS), latency(at));
        }
    }

    fn starts(breaches: &Breaches) -> Vec<f64> {
        breaches.breaches.iter().map(|breach| breach.start.as_secs()).collect()
    }

    #[test]
    fn a_burst_that_averaging_hides_is_a_breach() {
        // 30 s at 80 us and 30 s at 200 us: the average of the two P99.9 is 140 us, below 150.
        let mut window = Window::with_limits(config(10, 1, 60), &[LIMIT]);
        load(&mut window, 0..60_000, |ms| if ms < 30_000 { 80_000 } else { 200_000 });
        let found = window.breaches(LIMIT, 0.999);
        // From the window that has the burst's first second to the last one of all.
        assert_eq!(starts(&found), (21..=50).map(f64::from).collect::<Vec<_>>());
        assert_eq!((found.kept, found.not_provable, found.pass()), (21, 0, false));
        let first = found.breaches[0];
        assert_eq!((first.end, first.samples), (Nanos::from_secs(31), 10_000));
        assert_eq!(window.worst(0.999), Some(first));
        assert_eq!(first.value, 200_000);
        assert!(window.breaches(200_000, 0.999).pass());
    }

    #[test]
    fn a_burst_across_two_slots_is_counted_whole() {
        // 12 slow requests in 12 ms around the turn of a second, 6 in either slot: 0.1 % of 10,000
        // is 10, so that neither slot alone would do.
        let mut window = Window::with_limits(config(10, 1, 30), &[LIMIT]);
        let slow = 14_994..15_006;
        load(&mut window, 0..30_000, |ms| if slow.contains(&ms) { 200_000 } else { 80_000 });
        let found = window.breaches(LIMIT, 0.999);
        // Windows starting at 5 and 15 hold half the burst and keep the limit.
        assert_eq!(starts(&found), (6..=14).map(f64::from).collect::<Vec<_>>());
    }

    #[test]
    fn the_ring_forgets_what_has_left_the_history_and_nothing_else() {
        let mut window = Window::with_limits(config(10, 1, 15), &[LIMIT]);
        load(&mut window, 0..40_000, |ms| match ms / 1_000 {
            3 | 27 => 200_000,
            _ => 80_000,
        });
        let found = window.breaches(LIMIT, 0.999);
        // Kept are seconds 25 to 39, hence windows from 25 to 30.
        assert_eq!(starts(&found), [25.0, 26.0, 27.0]);
        assert_eq!(found.kept, 3);
    }

    #[test]
    fn too_few_samples_neither_pass_nor_fail() {
        let mut window = Window::with_limits(config(10, 1, 60), &[LIMIT]);
        for second in 0..20 {
            window.record(Nanos::from_secs(second), 80_000);
        }
        let found = window.breaches(LIMIT, 0.999);
        assert_eq!((found.breaches.len(), found.kept, found.not_provable), (0, 0, 11));
        assert!(!found.pass());
        assert_eq!(window.worst(0.999), None);
    }

    #[test]
    fn an_outage_with_few_requests_is_still_a_breach() {
        let mut window = Window::with_limits(config(10, 1, 60), &[LIMIT]);
        for second in 0..10 {
            window.record(Nanos::from_secs(second), 3_000_000_000);
        }
        assert_eq!(starts(&window.breaches(LIMIT, 0.999)), [0.0]);
    }

    #[test]
    fn less_than_one_window_is_not_judged() {
        let mut window = Window::with_limits(config(10, 1, 60), &[LIMIT]);
        load(&mut window, 0..9_000, |_| 80_000);
        assert_eq!(window.breaches(LIMIT, 0.999), Breaches::default());
        assert!(!window.breaches(LIMIT, 0.999).pass());
    }

    #[test]
    fn idle_time_ends_windows_without_values() {
        let mut window = Window::with_limits(config(10, 1, 60), &[LIMIT]);
        load(&mut window, 0..10_000, |_| 80_000);
        window.advance(Nanos::from_secs(14));
        let found = window.breaches(LIMIT, 0.999);
        assert_eq!((found.kept, found.not_provable), (6, 0));
        window.advance(Nanos::from_secs(500));
        assert_eq!(window.breaches(LIMIT, 0.999).not_provable, 51);
    }

    #[test]
    fn values_may_come_late_but_not_after_their_slot_is_gone() {
        let mut window = Window::with_limits(config(10, 1, 20), &[LIMIT]);
        load(&mut window, 10_000..30_000, |_| 80_000);
        load(&mut window, 15_000..16_000, |_| 200_000);
        assert_eq!(starts(&window.breaches(LIMIT, 0.999)), [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]);
        window.record(Nanos::from_secs(9), 1);
        assert_eq!(window.late(), 1);
    }

    #[test]
    fn shorter_slots_find_what_lies_between_whole_seconds() {
        // Half a second before each turn is slow and a window is one second long: windows that
        // start at whole seconds hold 500 slow of 1,000, finer ones up to as many and down to none.
        let fine = WindowConfig {
            span: Nanos::from_secs(1),
            slot: Nanos::from_ms(100),
            ..config(1, 1, 10)
        };
        let mut window = Window::with_limits(fine, &[LIMIT]);
        load(&mut window, 0..4_000, |ms| if ms < 1_500 { 80_000 } else { 200_000 });
        assert_eq!(window.breaches(LIMIT, 0.9).breaches[0].start, Nanos::from_ms(700));
    }

    proptest! {
        #[test]
        fn breaches_are_those_of_every_window_counted_by_hand(
            seconds in proptest::collection::vec((0u64..40, 0u64..400), 25),
        ) {
            // Per second: so many slow requests and so many fast ones.
            let mut window = Window::with_limits(config(5, 1, 25), &[LIMIT]);
            for (second, &(slow, fast)) in seconds.iter().enumerate() {
                let now = Nanos::from_secs(second as u64);
                window.advance(now);
                (0..slow).for_each(|_| window.record(now, LIMIT + 1));
                (0..fast).for_each(|_| window.record(now, LIMIT));
            }
            let by_hand: Vec<f64> = (0..=20)
                .filter(|&start| {
                    let span = &seconds[start..start + 5];
                    let slow: u64 = span.iter().map(|s| s.0).sum();
                    let n: u64 = span.iter().map(|s| s.0 + s.1).sum();
                    n >= 29 && slow as f64 > n as f64 * 0.1
                })
                .map(|start| start as f64)
                .collect();
            let enough = (0..=20).all(|s| seconds[s..s + 5].iter().map(|s| s.0 + s.1).sum::<u64>() >= 29);
            prop_assume!(enough);
            prop_assert_eq!(starts(&window.breaches(LIMIT, 0.9)), by_hand);
        }
    }
}
