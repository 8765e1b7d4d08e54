//! The hot thread's clock: ticks, and what the kernel's stamps are in them.

use quietcore_measure::CpuSet;
use quietcore_sys::clock::KernelClock;
use quietcore_sys::tsc::{self, Clock, Rate, Source};

/// How long an anchor serves: CLOCK_REALTIME is steered by up to 500 ppm, which is 10 ns in this time.
const ANCHOR_NS: u64 = 20_000_000;

/// A stamp further back than this is not a wait but a clock that was set.
const ABSURD_NS: u64 = 60_000_000_000;

/// Ticks, and their place on the kernel's clocks.
#[derive(Debug)]
pub struct HotClock {
    clock: Clock,
    is_counter: bool,
    rate: Rate,
    at: u64,
    realtime_ns: u64,
    monotonic_ns: u64,
    good_for: u64,
}

impl HotClock {
    /// For a thread that may run on these CPUs.
    pub fn start(cpus: &CpuSet) -> Self {
        let clock = Clock::start(cpus);
        let rate = clock.rate();
        let is_counter = clock.source() == Source::Counter;
        let good_for = rate.ticks(ANCHOR_NS);
        let mut clock =
            Self { clock, is_counter, rate, at: 0, realtime_ns: 0, monotonic_ns: 0, good_for };
        clock.anchor();
        clock
    }

    /// What it is and why.
    pub fn description(&self) -> String {
        self.clock.to_string()
    }

    /// How long a tick is.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Now.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        match self.is_counter {
            true => tsc::ticks(),
            false => KernelClock::Monotonic.now(),
        }
    }

    fn anchor(&mut self) {
        let before = self.now();
        self.realtime_ns = KernelClock::Realtime.now();
        self.monotonic_ns = KernelClock::Monotonic.now();
        self.at = before + self.now().saturating_sub(before) / 2;
    }

    /// Takes a new anchor if the old one has served its time. For idle moments.
    #[inline]
    pub fn keep(&mut self, now: u64) {
        if now.wrapping_sub(self.at) > self.good_for {
            self.anchor();
        }
    }

    /// How many nanoseconds before `now`, in ticks, the kernel made this stamp; `None` where it made
    /// none, or one that cannot be. In nanoseconds, for to make ticks of them takes a division.
    #[inline]
    pub fn since(&self, stamp: Option<u64>, now: u64) -> Option<u64> {
        let now_ns = self.realtime_ns + self.rate.ns(now.saturating_sub(self.at));
        let ns = now_ns.checked_sub(stamp?)?;
        (ns < ABSURD_NS).then_some(ns)
    }

    /// A tick on CLOCK_MONOTONIC.
    #[inline]
    pub fn monotonic_ns(&self, ticks: u64) -> u64 {
        match ticks.checked_sub(self.at) {
            Some(later) => self.monotonic_ns + self.rate.ns(later),
            None => self.monotonic_ns.saturating_sub(self.rate.ns(self.at - ticks)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_so_long_ago() {
        let mut clock = HotClock::start(&CpuSet::default());
        clock.keep(u64::MAX);
        let stamp = KernelClock::Realtime.now();
        let now = clock.now();
        let since = clock.since(Some(stamp), now);
        // It was just now: less than a second even where this is interrupted, and not absurd.
        assert!(since.is_none_or(|ns| ns < 1_000_000_000));
        assert_eq!(clock.since(None, now), None);
        assert_eq!(clock.since(Some(stamp + 3_600_000_000_000), now), None, "from the future");
        assert_eq!(clock.since(Some(stamp - 3_600_000_000_000), now), None, "an hour ago");
        let second = clock.since(Some(stamp - 1_000_000_000), now).unwrap();
        assert!((900_000_000..9_000_000_000).contains(&second));
    }

    #[test]
    fn ticks_before_and_after_the_anchor_are_placed() {
        let clock = HotClock::start(&CpuSet::default());
        let at = clock.monotonic_ns(clock.at);
        let later = clock.at + clock.rate().ticks(1_000);
        let earlier = clock.at - clock.rate().ticks(1_000);
        assert!(clock.monotonic_ns(later).abs_diff(at + 1_000) <= 2);
        assert!(clock.monotonic_ns(earlier).abs_diff(at - 1_000) <= 2);
    }
}
