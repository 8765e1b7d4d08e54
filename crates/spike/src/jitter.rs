//! Every gap of spinning CPUs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use quietcore_measure::{CpuSet, Gap, Hist, Nanos, Validity, Verdict};
use quietcore_sys::Host;
use quietcore_sys::tsc::{self, Clock, Rate, Source, Timebase};

use crate::crew::{self, Moment, Post, SpikeError, Work};
use crate::spin::{Keep, Recorder, Window, spin};
use crate::surroundings::{Counters, Surroundings};

/// How often a spinning thread looks at the stop flag.
const LOOK_EVERY: Nanos = Nanos::from_ms(1);

/// A gap must be so many turns long: below, the loop's own unevenness would be taken for gaps.
const TURNS_PER_GAP: u64 = 4;

/// How long a thread tries its loop out before the start.
const TRIAL: Nanos = Nanos::from_ms(2);

/// What to measure.
#[derive(Clone, Debug)]
pub struct JitterSettings {
    /// The CPUs, one spinning thread on each.
    pub cpus: CpuSet,
    /// For how long.
    pub duration: Nanos,
    /// What is a gap.
    pub threshold: Nanos,
    /// SCHED_FIFO with this priority (1 to 99) instead of the caller's class.
    pub fifo: Option<u8>,
    /// How many of the largest gaps are kept per CPU, come what may.
    pub largest: usize,
    /// How many of the other gaps are kept per CPU: all until they are more, then a sample.
    pub sampled: usize,
}

impl JitterSettings {
    /// The threshold if none is asked for.
    pub const THRESHOLD: Nanos = Nanos(100);

    /// Gaps of 100 ns and more; 1.3 MB of them per CPU.
    pub fn new(cpus: CpuSet, duration: Nanos) -> Self {
        Self {
            cpus,
            duration,
            threshold: Self::THRESHOLD,
            fifo: None,
            largest: 16_384,
            sampled: 65_536,
        }
    }
}

/// What one CPU's thread saw.
#[derive(Clone, Debug)]
pub struct CpuJitter {
    /// The CPU.
    pub cpu: usize,
    /// The thread that spun there.
    pub tid: u32,
    /// What was taken for a gap: what was asked for, or more where the clock is too slow for that.
    pub threshold: Nanos,
    /// The median turn of the loop in ticks of the clock.
    pub median_ticks: u64,
    /// Every turn in nanoseconds, gaps included.
    pub turns: Hist,
    /// Every gap in nanoseconds.
    pub gap_lengths: Hist,
    /// The gaps that were kept, by time, with their start on CLOCK_MONOTONIC.
    pub gaps: Vec<Gap>,
    /// How many gaps there were.
    pub gap_count: u64,
    /// How many of them were not kept.
    pub omitted: u64,
    /// Time in gaps.
    pub stolen: Nanos,
    /// Length of the measurement.
    pub elapsed: Nanos,
    /// Time the loop spent on recording gaps, which is in no gap and no turn.
    pub own: Nanos,
    /// How long after the common start it began, because something else had its CPU.
    pub late: Nanos,
    /// How often the clock ran backwards.
    pub backwards: u64,
}

/// A measurement.
#[derive(Clone, Debug)]
pub struct Jitter {
    /// The clock that was used.
    pub clock: Clock,
    /// Start on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// From ticks of the clock to CLOCK_MONOTONIC during the measurement: puts what others
    /// stamped with the same counter on the gaps' time line.
    pub timebase: Timebase,
    /// CPU by CPU.
    pub cpus: Vec<CpuJitter>,
    /// What else happened.
    pub surroundings: Surroundings,
    /// How far it can be trusted.
    pub validity: Validity,
}

impl Jitter {
    /// Measures. `progress` is told how long it has been, some ten times a second, on the
    /// caller's thread; `stop` ends it early with what there is.
    ///
    /// # Errors
    /// [`SpikeError`]: CPUs that are not there or not allowed, a class that is not granted, and
    /// SCHED_FIFO on all CPUs at once.
    pub fn run(
        settings: &JitterSettings,
        host: &Host,
        stop: &AtomicBool,
        mut progress: impl FnMut(Nanos),
    ) -> Result<Self, SpikeError> {
        let post =
            Post { cpus: settings.cpus.clone(), fifo: settings.fifo, sleeps: false, lock: true };
        post.check(&online(host))?;
        let clock = Clock::start(&settings.cpus);
        let mut before = Counters::default();
        let mut after = Counters::default();
        let mut tids = BTreeMap::new();
        let work = crew::run(
            &post,
            &clock,
            |cpu| Ok(Spinner::prepare(settings, &clock, cpu)),
            |spinner, start| Ok(spinner.spin(start, settings.duration, stop)),
            |moment| match moment {
                Moment::Ready(members) => {
                    before = Counters::read(host, members.iter().map(|m| (m.cpu, m.tid)));
                    tids = members.iter().map(|m| (m.cpu, m.tid.unsigned_abs())).collect();
                }
                Moment::Working(elapsed) => progress(elapsed),
                Moment::Done(members) => {
                    after = Counters::read(host, members.iter().map(|m| (m.cpu, m.tid)));
                }
            },
        )?;
        let usage: Vec<_> = work.shares.iter().map(|share| (share.cpu, share.usage)).collect();
        let surroundings = Surroundings::between(&before, &after, &usage);
        let mut validity = Validity::default();
        note_conditions(&mut validity, &work);
        if clock.source() == Source::Kernel {
            validity.note(
                Verdict::Valid,
                format!("timed by clock_gettime, which may be a system call here: {}", clock.why()),
            );
        }
        if settings.fifo.is_some() {
            note_throttling(&mut validity, host);
        }
        if stop.load(Ordering::Relaxed) {
            validity.note(Verdict::Incomplete, "stopped before its time");
        }
        surroundings.judge(&mut validity);
        let start_ns = work.timebase.monotonic_ns(work.start);
        let cpus: Vec<_> = work
            .shares
            .iter()
            .map(|share| {
                let tid = tids.get(&share.cpu).copied().unwrap_or_default();
                share.result.seen(share.cpu, tid, work.start, &work.timebase)
            })
            .collect();
        for cpu in &cpus {
            cpu.note(settings, &mut validity);
        }
        let timebase = work.timebase;
        Ok(Self { clock, start_ns, timebase, cpus, surroundings, validity })
    }

    /// How far a gap's start can be misplaced on CLOCK_MONOTONIC.
    pub fn start_error(&self) -> Nanos {
        Nanos(self.timebase.error_ns())
    }
}

/// The CPUs that are online; none if the host does not say, which refuses nothing.
pub(crate) fn online(host: &Host) -> CpuSet {
    host.read("/sys/devices/system/cpu/online")
        .ok()
        .and_then(|list| CpuSet::parse_list(&list).ok())
        .unwrap_or_default()
}

/// A spinning real-time thread meets the kernel's safety catch, which looks like a huge gap.
fn note_throttling(validity: &mut Validity, host: &Host) {
    let read = |name: &str| host.number(&format!("/proc/sys/kernel/{name}")).ok();
    let (runtime, period) = (read("sched_rt_runtime_us"), read("sched_rt_period_us"));
    if let (Some(runtime @ 0..), Some(period)) = (runtime, period) {
        let taken = Nanos::from_us(u64::try_from(period - runtime).unwrap_or_default());
        let period = Nanos::from_us(u64::try_from(period).unwrap_or_default());
        validity.note(
            Verdict::Valid,
            format!(
                "the kernel may take the CPU from a SCHED_FIFO thread for {taken} of every \
                 {period} (kernel.sched_rt_runtime_us)"
            ),
        );
    }
}

/// Notes under what conditions any crew worked.
pub(crate) fn note_conditions<T>(validity: &mut Validity, work: &Work<T>) {
    if let Some(why) = &work.not_locked {
        validity.note(
            Verdict::Valid,
            format!("memory was not locked, so first touches may fault: {why}"),
        );
    }
    for share in work.shares.iter().filter(|share| !share.stayed) {
        let cpu = share.cpu;
        validity.note(
            Verdict::Incomplete,
            format!("CPU {cpu} was taken away meanwhile (offline, or a cpuset): part of this is another CPU's"),
        );
    }
    if work.leader_in_the_way {
        validity.note(
            Verdict::Disturbed,
            "the program itself had no other CPU to run on: leave one out of --cpus",
        );
    }
}

/// A thread's loop with the memory it writes to.
struct Spinner {
    source: Source,
    rate: Rate,
    recorder: Recorder,
    threshold: Nanos,
}

impl Spinner {
    /// Tries the loop out, which tells how long a turn and a recording take here and brings the
    /// code into the caches, then gets the memory ready.
    fn prepare(settings: &JitterSettings, clock: &Clock, cpu: usize) -> Self {
        let (source, rate) = (clock.source(), clock.rate());
        let asked = rate.ticks(settings.threshold.0).max(1);
        let keep = |largest, sampled| Keep { largest, sampled, seed: cpu as u64 + 1 };

        let mut trial = Self {
            source,
            rate,
            recorder: Recorder::new(rate, asked, 0, keep(64, 64)),
            threshold: settings.threshold,
        };
        let never = AtomicBool::new(false);
        trial.turn(0, clock.ticks() + rate.ticks(TRIAL.0), &never);
        let threshold = asked.max(TURNS_PER_GAP * trial.recorder.median_ticks());

        // With a threshold of one tick every turn is recorded.
        trial.recorder = Recorder::new(rate, 1, 0, keep(64, 64));
        trial.turn(0, clock.ticks() + rate.ticks(TRIAL.0), &never);
        let own = trial.recorder.own();
        let allowance = 4 * own.ticks / own.times.max(1);

        Self {
            source,
            rate,
            recorder: Recorder::new(
                rate,
                threshold,
                allowance,
                keep(settings.largest, settings.sampled),
            ),
            threshold: Nanos(rate.ns(threshold)),
        }
    }

    fn spin(mut self, start: u64, duration: Nanos, stop: &AtomicBool) -> Self {
        self.turn(start, start.saturating_add(self.rate.ticks(duration.0)), stop);
        self
    }

    fn turn(&mut self, start: u64, deadline: u64, stop: &AtomicBool) {
        let window = Window { start, deadline, look_every: self.rate.ticks(LOOK_EVERY.0) };
        match self.source {
            Source::Counter => spin(tsc::ticks, window, stop, &mut self.recorder),
            Source::Kernel => {
                let now = || quietcore_sys::clock::KernelClock::Monotonic.now();
                spin(now, window, stop, &mut self.recorder);
            }
        }
    }

    fn seen(&self, cpu: usize, tid: u32, start: u64, timebase: &Timebase) -> CpuJitter {
        let (recorder, rate) = (&self.recorder, self.rate);
        // Starts are rounded and put on the kernel's clock each by itself: of two gaps that adjoin
        // the second begins when the first has ended.
        let mut ended = 0;
        let on_time_line = |gap: Gap| {
            let ticks = recorder.begin().wrapping_add(rate.ticks(gap.start_ns));
            let start_ns = timebase.monotonic_ns(ticks).max(ended);
            ended = start_ns + gap.len_ns.0;
            Gap { start_ns, ..gap }
        };
        CpuJitter {
            cpu,
            tid,
            threshold: self.threshold,
            median_ticks: recorder.median_ticks(),
            turns: recorder.turns(),
            gap_lengths: recorder.gap_lengths().clone(),
            gaps: recorder.gaps().kept().into_iter().map(on_time_line).collect(),
            gap_count: recorder.gaps().count(),
            omitted: recorder.gaps().omitted(),
            stolen: recorder.gaps().total(),
            elapsed: Nanos(rate.ns(recorder.elapsed())),
            own: Nanos(rate.ns(recorder.own().ticks)),
            late: Nanos(rate.ns(recorder.begin().saturating_sub(start))),
            backwards: recorder.backwards(),
        }
    }
}

impl CpuJitter {
    /// Gaps per second.
    pub fn gaps_per_second(&self) -> f64 {
        match self.elapsed {
            Nanos(0) => 0.0,
            elapsed => self.gap_count as f64 / elapsed.as_secs(),
        }
    }

    /// The share of the time that was taken, in parts per million.
    pub fn stolen_ppm(&self) -> f64 {
        match self.elapsed {
            Nanos(0) => 0.0,
            elapsed => self.stolen.0 as f64 / elapsed.0 as f64 * 1e6,
        }
    }

    fn note(&self, settings: &JitterSettings, validity: &mut Validity) {
        let cpu = self.cpu;
        // A tick of rounding up is no news.
        if self.threshold.0 > settings.threshold.0 + 2 {
            validity.note(
                Verdict::Valid,
                format!(
                    "CPU {cpu}: gaps count from {} on, not from {}: the clock takes that long here",
                    self.threshold, settings.threshold
                ),
            );
        }
        if self.omitted > 0 {
            validity.note(
                Verdict::Valid,
                format!(
                    "CPU {cpu}: of {} gaps the {} largest and a sample of {} others are kept; \
                     counts and distributions hold all",
                    self.gap_count, settings.largest, settings.sampled
                ),
            );
        }
        if self.late >= self.threshold {
            validity.note(
                Verdict::Disturbed,
                format!(
                    "CPU {cpu}: something else ran there at the start, unseen for {}",
                    self.late
                ),
            );
        }
        if self.backwards > 0 {
            validity.note(
                Verdict::Disturbed,
                format!("CPU {cpu}: the clock ran backwards {} times", self.backwards),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_sys::sched;

    fn run(fifo: Option<u8>, cpus: CpuSet) -> Result<Jitter, SpikeError> {
        let settings = JitterSettings { fifo, ..JitterSettings::new(cpus, Nanos::from_ms(50)) };
        Jitter::run(&settings, &Host::live(), &AtomicBool::new(false), |_| {})
    }

    #[test]
    fn every_cpu_is_watched_for_the_whole_time() {
        let cpus = sched::affinity(sched::CALLER).unwrap();
        let jitter = run(None, cpus.clone()).unwrap();
        assert_eq!(jitter.cpus.iter().map(|cpu| cpu.cpu).collect::<CpuSet>(), cpus);
        for cpu in &jitter.cpus {
            let covered = cpu.late + cpu.elapsed + jitter.start_error();
            assert!(covered >= Nanos::from_ms(50), "{covered}");
            assert_eq!(cpu.gaps.len() as u64 + cpu.omitted, cpu.gap_count);
            assert_eq!(cpu.gap_lengths.count(), cpu.gap_count);
        }
    }

    #[test]
    fn gaps_lie_on_the_kernel_s_time_line_within_the_run() {
        use quietcore_sys::clock::KernelClock;
        let cpu = sched::affinity(sched::CALLER).unwrap().highest().unwrap();
        let before = KernelClock::Monotonic.now();
        let jitter = run(None, [cpu].into_iter().collect()).unwrap();
        let after = KernelClock::Monotonic.now();
        assert!(before < jitter.start_ns && jitter.start_ns < after);
        for gap in &jitter.cpus[0].gaps {
            assert!(gap.start_ns + jitter.start_error().0 >= jitter.start_ns, "{gap:?}");
            assert!(gap.start_ns + gap.len_ns.0 < after, "{gap:?}");
        }
    }

    #[test]
    fn a_clock_that_is_slow_to_read_raises_the_threshold_and_loses_no_time() {
        let cpu = sched::affinity(sched::CALLER).unwrap().highest().unwrap();
        let clock = Clock::kernel("a test".to_owned());
        let settings = JitterSettings {
            threshold: Nanos(1),
            ..JitterSettings::new([cpu].into_iter().collect(), Nanos::from_ms(10))
        };
        let start = clock.ticks();
        let spinner = Spinner::prepare(&settings, &clock, cpu);
        let spun = spinner.spin(start, Nanos::from_ms(10), &AtomicBool::new(false));
        let base = Timebase::new(vec![clock.anchor()], clock.rate());
        let seen = spun.seen(cpu, 0, start, &base);
        assert!(seen.threshold > Nanos(1));
        assert!(seen.gaps.iter().all(|gap| gap.len_ns >= seen.threshold && gap.start_ns >= start));
        // Ticks are nanoseconds, so that nothing is rounded.
        let turns = (seen.turns.mean().unwrap() * seen.turns.count() as f64).round() as u64;
        assert!((turns + seen.own.0).abs_diff(seen.elapsed.0) <= 1, "{seen:?}");
        let mut validity = Validity::default();
        seen.note(&settings, &mut validity);
        assert!(validity.notes.iter().any(|note| note.contains("not from 1 ns")), "{validity:?}");
    }

    #[test]
    fn real_time_on_every_cpu_is_refused() {
        let all = online(&Host::live());
        assert!(matches!(run(Some(1), all), Err(SpikeError::FifoEverywhere { .. })));
    }

    #[test]
    fn a_set_stop_flag_ends_it_with_what_there_is() {
        let cpu = sched::affinity(sched::CALLER).unwrap().highest().unwrap();
        let settings = JitterSettings::new([cpu].into_iter().collect(), Nanos::from_secs(3_600));
        let stop = AtomicBool::new(false);
        let jitter = Jitter::run(&settings, &Host::live(), &stop, |elapsed| {
            if elapsed > Nanos(0) {
                stop.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
        assert_eq!(jitter.validity.verdict, Verdict::Incomplete);
        assert!(jitter.cpus[0].turns.count() > 0);
    }
}
