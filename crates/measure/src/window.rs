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
            late: 0,
        }
    }

    /// Records a value seen at `now`.
    #[inline]
    pub fn record(&mut self, now: Nanos, value: u64) {
        let slot = now.0 / self.slot;
        match self.seen {
            Some((_, newest)) if slot == newest => {}
            _ => {
                if !self.turn_to(slot) {
                    self.late += 1;
                    return;
                }
            }
        }
        let index = (slot % self.ring.len() as u64) as usize;
        if let Some(hist) = self.ring.get_mut(index) {
            hist.record(value);
        }
    }

    /// Lets time pass without a value, so that windows end that nothing was recorded in.
    pub fn advance(&mut self, now: Nanos) {
        self.turn_to(now.0 / self.slot);
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
