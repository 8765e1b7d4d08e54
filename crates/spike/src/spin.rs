//! The loop that sees every gap.
//!
//! Each turn reads the clock, counts how long the turn took in a directly indexed array, and
//! compares with the time of the next look at the stop flag. That is one addition in a cache line
//! that stays in L1 and two branches that are always predicted: they fit into the twenty cycles
//! that the next read of the clock takes anyway. What is longer than the array goes another way.
//!
//! No turn is unseen. Recording a gap takes time, too, and that time is watched: see [`Own`].

use std::sync::atomic::{AtomicBool, Ordering};

use quietcore_measure::{Gap, GapStore, Hist, HistConfig, Nanos};
use quietcore_sys::tsc::Rate;

/// The longest turn that is counted by direct index, in ticks: 32 KiB of counters. Longer ones
/// are rare enough for a histogram.
const LONGEST_DIRECT: u64 = 4_096;

/// Three significant digits up to an hour.
pub(crate) const FINE: HistConfig = HistConfig { precision_bits: 10, highest: 3_600_000_000_000 };

/// What counts as a gap and when to end. Times are in ticks of the clock that the loop reads.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The first turn begins at this tick or, if it has passed, at once.
    pub start: u64,
    /// The last turn ends at this tick or soon after.
    pub deadline: u64,
    /// How often the stop flag is looked at.
    pub look_every: u64,
}

/// Time that the loop spent on recording gaps: its own doing, counted as no gap and no turn.
///
/// An interruption in the middle of that would go unseen, so a recording that takes longer than
/// the threshold and several times the usual is kept as a gap itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// How many turns ended with a recording.
    pub times: u64,
    /// What they took altogether, in ticks.
    pub ticks: u64,
    /// What the longest took, in ticks.
    pub longest: u64,
    /// How many were interrupted themselves and are kept as gaps.
    pub interrupted: u64,
}

/// The memory of one spinning thread. All of it is allocated by the constructor.
#[derive(Debug)]
pub struct Recorder {
    /// How often a turn took so many ticks, for turns below the threshold.
    turns: Box<[u64]>,
    rest: Rest,
}

/// What the loop touches only now and then.
#[derive(Debug)]
struct Rest {
    rate: Rate,
    threshold: u64,
    allowance: u64,
    /// Turns too long for the array, in nanoseconds, gaps included.
    slow: Hist,
    /// Gaps, in nanoseconds.
    gap_lengths: Hist,
    /// Gaps with their start in nanoseconds since `begin`.
    gaps: GapStore,
    own: Own,
    backwards: u64,
    begin: u64,
    end: u64,
}

impl Recorder {
    /// For gaps of at least `threshold` ticks of a clock with this `rate`; keeps the `largest`
    /// gaps and a sample of `sampled` others. A recording that takes `allowance` ticks longer
    /// than the threshold is taken for an interruption of the recording.
    pub fn new(rate: Rate, threshold: u64, allowance: u64, keep: Keep) -> Self {
        let threshold = threshold.max(1);
        let mut recorder = Self {
            turns: vec![0; threshold.min(LONGEST_DIRECT) as usize].into(),
            rest: Rest {
                rate,
                threshold,
                allowance,
                slow: Hist::new(FINE),
                gap_lengths: Hist::new(FINE),
                gaps: GapStore::new(keep.largest, keep.sampled, keep.seed),
                own: Own::default(),
                backwards: 0,
                begin: 0,
                end: 0,
            },
        };
        // Memory from the allocator may be pages that the kernel has only promised.
        recorder.turns.fill(0);
        recorder.rest.slow.clear();
        recorder.rest.gap_lengths.clear();
        recorder
    }

    /// Ticks of the first turn's beginning.
    pub fn begin(&self) -> u64 {
        self.rest.begin
    }

    /// Ticks between the first turn's beginning and the last one's end.
    pub fn elapsed(&self) -> u64 {
        self.rest.end.wrapping_sub(self.rest.begin)
    }

    /// Number of turns.
    pub fn count(&self) -> u64 {
        self.turns.iter().sum::<u64>() + self.rest.slow.count()
    }

    /// Time spent on recording.
    pub fn own(&self) -> Own {
        self.rest.own
    }

    /// How often the clock ran backwards between two reads. Such a turn is counted here only.
    pub fn backwards(&self) -> u64 {
        self.rest.backwards
    }

    /// The gaps; their starts count from the first turn's beginning, by the rate that the
    /// recorder was made with.
    pub fn gaps(&self) -> &GapStore {
        &self.rest.gaps
    }

    /// The lengths of all gaps in nanoseconds.
    pub fn gap_lengths(&self) -> &Hist {
        &self.rest.gap_lengths
    }

    /// The median turn in ticks; 0 before the first.
    pub fn median_ticks(&self) -> u64 {
        let half = self.count().div_ceil(2);
        let mut seen = 0;
        let direct = self.turns.iter().position(|&count| {
            seen += count;
            seen >= half && half > 0
        });
        match direct {
            Some(ticks) => ticks as u64,
            None => self.rest.rate.ticks(self.rest.slow.value_at(0.5).unwrap_or_default()),
        }
    }

    /// Every turn in nanoseconds, gaps included.
    pub fn turns(&self) -> Hist {
        let mut turns = self.rest.slow.clone();
        for (ticks, &count) in self.turns.iter().enumerate() {
            // Rounded to the nearest: a turn is but a few nanoseconds long.
            turns.record_n(self.rest.rate.ns(ticks as u64 * 2).div_ceil(2), count);
        }
        turns
    }
}

/// How many gaps a [`Recorder`] keeps.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// So many of the largest.
    pub largest: usize,
    /// A sample of so many others.
    pub sampled: usize,
    /// What the sample's randomness starts from.
    pub seed: u64,
}

/// Turns until the window's deadline or until `stop` is seen. Allocates nothing, locks nothing,
/// and makes no system call if `now` makes none.
#[inline(never)]
pub fn spin(
    now: impl Fn() -> u64 + Copy,
    window: Window,
    stop: &AtomicBool,
    recorder: &mut Recorder,
) {
    let mut begin = now();
    while begin < window.start && !stop.load(Ordering::Relaxed) {
        begin = now();
    }
    recorder.rest.begin = begin;
    let mut next_look = begin.wrapping_add(window.look_every).min(window.deadline);
    let mut after = now();
    let mut took = after.wrapping_sub(begin);
    loop {
        let next = now();
        // The turn that ended with `after` is counted while the processor is busy with the read
        // above, which waits for all before it and for nothing behind it: counting the turn that
        // ends with `next` here would make a turn longer by almost half.
        match recorder.turns.get_mut(took as usize) {
            Some(count) => {
                *count += 1;
                took = next.wrapping_sub(after);
                after = next;
            }
            None => {
                let done = recorder.slow_turns(now, took, after, next);
                after = now();
                took = after.wrapping_sub(done);
            }
        }
        if after >= next_look {
            if after >= window.deadline || stop.load(Ordering::Relaxed) {
                recorder.turn(took, after);
                recorder.rest.end = after;
                return;
            }
            next_look = after.wrapping_add(window.look_every).min(window.deadline);
        }
    }
}

impl Recorder {
    /// Records two turns, the first of which the array has no place for: it took `took` and
    /// ended with `after`, the second ended with `next`. Returns when that was done.
    #[cold]
    #[inline(never)]
    fn slow_turns(&mut self, now: impl Fn() -> u64, took: u64, after: u64, next: u64) -> u64 {
        self.turn(took, after);
        self.turn(next.wrapping_sub(after), next);
        let done = now();
        self.rest.recorded(next, done);
        done
    }

    /// Records any turn.
    fn turn(&mut self, took: u64, ended: u64) {
        match self.turns.get_mut(took as usize) {
            Some(count) => *count += 1,
            None => self.rest.slow_turn(took, ended),
        }
    }
}

impl Rest {
    fn slow_turn(&mut self, took: u64, ended: u64) {
        if took > u64::MAX / 2 {
            self.backwards += 1;
            return;
        }
        self.slow.record(self.rate.ns(took));
        if took >= self.threshold {
            self.gap(ended.wrapping_sub(took), took);
        }
    }

    fn recorded(&mut self, from: u64, to: u64) {
        let took = to.saturating_sub(from);
        self.own.times += 1;
        self.own.ticks += took;
        self.own.longest = self.own.longest.max(took);
        if took >= self.threshold.saturating_add(self.allowance) {
            self.own.interrupted += 1;
            self.gap(from, took);
        }
    }

    fn gap(&mut self, start: u64, took: u64) {
        let len_ns = self.rate.ns(took);
        self.gap_lengths.record(len_ns);
        let start_ns = self.rate.ns(start.wrapping_sub(self.begin));
        self.gaps.push(Gap { start_ns, len_ns: Nanos(len_ns) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const KEEP: Keep = Keep { largest: 4, sampled: 4, seed: 1 };

    /// A clock that reads what it is told, one value after the other.
    fn clock(times: &[u64]) -> impl Fn() -> u64 + Copy {
        let times: &'static [u64] = times.to_vec().leak();
        let next: &'static Cell<usize> = Box::leak(Box::new(Cell::new(0)));
        move || {
            let index = next.get().min(times.len() - 1);
            next.set(index + 1);
            times[index]
        }
    }

    fn run(times: &[u64], threshold: u64, allowance: u64) -> Recorder {
        let mut recorder = Recorder::new(Rate::NANOSECOND, threshold, allowance, KEEP);
        let window = Window { start: 0, deadline: *times.last().unwrap(), look_every: 1_000_000 };
        spin(clock(times), window, &AtomicBool::new(false), &mut recorder);
        recorder
    }

    #[test]
    fn every_turn_is_counted_and_every_gap_is_kept() {
        // Turns of 10, 10, a gap of 500 from 1020, one of 11, the recording takes 30; 10, 12.
        let r = run(&[1_000, 1_010, 1_020, 1_520, 1_531, 1_561, 1_571, 1_583], 100, 50);
        assert_eq!(r.count(), 6);
        assert_eq!(r.gaps().kept(), [Gap { start_ns: 20, len_ns: Nanos(500) }]);
        assert_eq!(r.own(), Own { times: 1, ticks: 30, longest: 30, interrupted: 0 });
        let turns: Vec<_> = r.turns().buckets().map(|(low, _, count)| (low, count)).collect();
        assert_eq!(turns, [(10, 3), (11, 1), (12, 1), (500, 1)]);
        assert_eq!(r.median_ticks(), 10);
        // Turns and recording make up the whole time.
        assert_eq!(r.elapsed(), 583);
        assert_eq!(10 * 3 + 11 + 12 + 500 + r.own().ticks, r.elapsed());
    }

    #[test]
    fn a_turn_as_long_as_the_threshold_is_a_gap_and_one_shorter_is_none() {
        let r = run(&[0, 99, 199, 210, 220, 230, 240], 100, 50);
        assert_eq!(r.gap_lengths().count(), 1);
        assert_eq!(r.gaps().kept()[0].len_ns, Nanos(100));
    }

    #[test]
    fn two_gaps_in_a_row_are_two_gaps() {
        let r = run(&[0, 10, 310, 710, 740, 750, 760], 100, 50);
        let lengths: Vec<_> =
            r.gaps().kept().iter().map(|gap| (gap.start_ns, gap.len_ns.0)).collect();
        assert_eq!(lengths, [(10, 300), (310, 400)]);
        assert_eq!(r.own().times, 1);
    }

    #[test]
    fn a_gap_in_the_very_last_turn_is_kept() {
        let r = run(&[0, 10, 20, 30, 900], 100, 50);
        assert_eq!(r.gaps().kept(), [Gap { start_ns: 30, len_ns: Nanos(870) }]);
        assert_eq!(r.elapsed(), 900);
    }

    #[test]
    fn an_interruption_of_the_recording_is_a_gap_of_its_own() {
        // The recording that begins at 610 lasts until 5610.
        let r = run(&[0, 600, 610, 5_610, 5_620, 5_630], 100, 50);
        let kept = r.gaps().kept();
        let long = |start_ns, len| Gap { start_ns, len_ns: Nanos(len) };
        assert_eq!(kept, [long(0, 600), long(610, 5_000)]);
        assert_eq!(r.own().interrupted, 1);
    }

    #[test]
    fn a_threshold_beyond_the_array_keeps_long_turns_in_the_distribution() {
        let r = run(&[0, 10, 9_010, 9_020, 9_040, 29_040, 29_050, 29_070, 29_080], 10_000, 50);
        assert_eq!(r.gap_lengths().count(), 1);
        assert_eq!(r.count(), 6);
        assert_eq!(r.turns().max(), Some(20_000));
    }

    #[test]
    fn a_clock_that_runs_backwards_makes_no_gap() {
        let r = run(&[1_000, 1_010, 500, 510, 520, 530, 2_000_000], 3_000_000, 50);
        assert_eq!((r.backwards(), r.gap_lengths().count()), (1, 0));
    }

    #[test]
    fn a_full_store_keeps_the_largest_and_counts_the_rest() {
        let mut times = vec![0u64, 10];
        for gap in 0..100u64 {
            let last = times[times.len() - 1];
            // The gap, a turn, their recording, and a turn.
            times.extend([200, 210, 220, 230].map(|step| last + gap + step));
        }
        let r = run(&times, 100, 1_000);
        assert_eq!(r.gaps().count(), 100);
        assert_eq!(r.gaps().omitted(), 92);
        let lengths: Vec<_> = r.gaps().kept().iter().map(|gap| gap.len_ns.0).collect();
        for largest in 296..=299 {
            assert!(lengths.contains(&largest), "{lengths:?}");
        }
        assert_eq!(r.gap_lengths().count(), 100);
    }

    #[test]
    fn the_stop_flag_ends_it() {
        let mut recorder = Recorder::new(Rate::NANOSECOND, 100, 50, KEEP);
        let window = Window { start: 0, deadline: u64::MAX, look_every: 50 };
        let stop = AtomicBool::new(true);
        spin(clock(&[10, 20, 30, 40, 50, 60, 70, 80]), window, &stop, &mut recorder);
        assert_eq!(recorder.elapsed(), 50);
        assert_eq!(recorder.count(), 5);
    }

    #[test]
    fn no_turn_is_lost_whatever_the_times() {
        // Gaps of many lengths at odd places: what was counted adds up to what went by.
        let mut times = vec![5u64];
        let mut step = 7u64;
        for _ in 0..20_000 {
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let length = if step >> 60 == 0 { step >> 40 & 0xffff } else { 10 + (step >> 33) % 20 };
            times.push(times[times.len() - 1] + length);
        }
        let r = run(&times, 100, u64::MAX / 4);
        // Exact: the histogram keeps values below 2048 as they are, and min and sum always.
        let all = r.turns().mean().unwrap() * r.count() as f64;
        assert_eq!(all.round() as u64 + r.own().ticks, r.elapsed());
    }
}
