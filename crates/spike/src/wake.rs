//! How late timed wake-ups from idle are, by the idle state that was entered.
//!
//! Open loop: the k-th wake-up is due at start + k periods whatever became of the one before, and
//! its lateness counts from then. A thread that counted from when it went to sleep would forgive
//! itself every delay.
//!
//! The idle state comes from the CPU's own `usage` counters, read after each wake-up and outside
//! the timed part. Nothing on this CPU idles between that reading and going to sleep again, so
//! what grew in between grew while this thread slept. If one state only grew, the wake-up was
//! from that state; if several did, an interrupt woke the CPU in between, and it is not said
//! which one the timer found.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use quietcore_measure::{CpuSet, Hist, HistConfig, Nanos, Reading, Validity, Verdict};
use quietcore_sys::Host;
use quietcore_sys::clock::{self, KernelClock, Slept};
use quietcore_sys::tsc::Clock;

use crate::crew::{self, Moment, Post, SpikeError};
use crate::jitter::{note_conditions, online};
use crate::spin::FINE;
use crate::surroundings::{Counters, Surroundings};

/// Below, reading the idle states would fill the period; above, hardly anything is measured.
const PERIODS: std::ops::RangeInclusive<Nanos> = Nanos::from_us(50)..=Nanos::from_secs(10);

/// The least timer slack that can be asked for.
const SLACK_NS: u64 = 1;

/// What to measure.
#[derive(Clone, Debug)]
pub struct WakeSettings {
    /// The CPUs, one sleeping thread on each.
    pub cpus: CpuSet,
    /// For how long.
    pub duration: Nanos,
    /// Time between two wake-ups, 50 µs to 10 s.
    pub period: Nanos,
    /// SCHED_FIFO with this priority (1 to 99) instead of the caller's class.
    pub fifo: Option<u8>,
}

/// What the CPU was doing when its timer went off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slumber {
    /// In this idle state, by index of [`CpuWake::states`].
    State(usize),
    /// In one of several idle states; it was woken in between.
    Mixed,
    /// In none: something else ran, or the kernel polls instead of idling.
    Busy,
    /// The kernel does not count idle states here.
    Unknown,
}

impl Slumber {
    /// From the growth of each state's counter.
    fn of(before: &[u64], after: &[u64]) -> Self {
        let mut grown = before.iter().zip(after).enumerate().filter(|(_, (b, a))| a != b);
        match (before.len(), grown.next(), grown.next()) {
            (0, ..) => Self::Unknown,
            (_, None, _) => Self::Busy,
            (_, Some((index, _)), None) => Self::State(index),
            (_, Some(_), Some(_)) => Self::Mixed,
        }
    }
}

/// An idle state of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// As `C1E`.
    pub name: String,
    /// What waking up from it takes at worst, in µs, as the driver says.
    pub exit_latency_us: Reading<u64>,
}

/// What one CPU's thread saw.
#[derive(Clone, Debug)]
pub struct CpuWake {
    /// The CPU.
    pub cpu: usize,
    /// Its idle states.
    pub states: Vec<IdleState>,
    /// Lateness of every wake-up that was due, in nanoseconds, the missed ones included.
    pub lateness: Hist,
    /// Lateness in nanoseconds of those that happened, by what the CPU was doing.
    pub by_slumber: Vec<(Slumber, Hist)>,
    /// Wake-ups that were due while the one before had not even happened.
    pub missed: u64,
}

impl CpuWake {
    /// How a table names what the CPU was doing.
    pub fn name(&self, slumber: Slumber) -> &str {
        match slumber {
            Slumber::State(index) => self.states.get(index).map_or("?", |s| s.name.as_str()),
            Slumber::Mixed => "mixed",
            Slumber::Busy => "not idle",
            Slumber::Unknown => "unknown",
        }
    }
}

/// A measurement.
#[derive(Clone, Debug)]
pub struct Wake {
    /// Time between two wake-ups.
    pub period: Nanos,
    /// CPU by CPU.
    pub cpus: Vec<CpuWake>,
    /// What else happened.
    pub surroundings: Surroundings,
    /// How far it can be trusted.
    pub validity: Validity,
}

impl Wake {
    /// Measures, with the timer slack of its threads set to 1 ns. Arguments as for
    /// [`Jitter::run`](crate::Jitter::run).
    ///
    /// # Errors
    /// [`SpikeError`]: CPUs that are not there, a class that is not granted, a period out of
    /// range.
    pub fn run(
        settings: &WakeSettings,
        host: &Host,
        stop: &AtomicBool,
        mut progress: impl FnMut(Nanos),
    ) -> Result<Self, SpikeError> {
        if !PERIODS.contains(&settings.period) {
            return Err(SpikeError::Period(settings.period));
        }
        let post =
            Post { cpus: settings.cpus.clone(), fifo: settings.fifo, sleeps: true, lock: true };
        post.check(&online(host))?;
        let clock = Clock::kernel("timed sleeps are on this clock".to_owned());
        let (mut before, mut after) = (Counters::default(), Counters::default());
        let threads =
            |members: &[crew::Member]| Counters::read(host, members.iter().map(|m| (m.cpu, m.tid)));
        let work = crew::run(
            &post,
            &clock,
            |cpu| Sleeper::prepare(settings, cpu),
            |sleeper, start| sleeper.sleep(start, stop),
            |moment| match moment {
                Moment::Ready(members) => before = threads(members),
                Moment::Working(elapsed) => progress(elapsed),
                Moment::Done(members) => after = threads(members),
            },
        )?;
        let mut validity = Validity::default();
        note_conditions(&mut validity, &work);
        if stop.load(Ordering::Relaxed) {
            validity.note(Verdict::Incomplete, "stopped before its time");
        }
        validity.note(
            Verdict::Valid,
            "timer slack was set to 1 ns (a thread's default is 50 µs); reading the idle states \
             after each wake-up keeps the CPU awake for some microseconds more",
        );
        let usage: Vec<_> = work.shares.iter().map(|share| (share.cpu, share.usage)).collect();
        let surroundings = Surroundings::between(&before, &after, &usage);
        surroundings.judge(&mut validity);
        let cpus: Vec<_> = work
            .shares
            .into_iter()
            .map(|share| share.result.seen(share.cpu, idle_states(host, share.cpu)))
            .collect();
        for cpu in cpus.iter().filter(|cpu| cpu.states.is_empty()) {
            let why = "the kernel has no idle driver that counts (cpuidle)";
            validity.note(Verdict::Valid, format!("CPU {}: idle states unknown: {why}", cpu.cpu));
        }
        for cpu in cpus.iter().filter(|cpu| cpu.missed > 0) {
            let note = format!(
                "CPU {}: {} wake-ups were due before the one before had happened",
                cpu.cpu, cpu.missed
            );
            validity.note(Verdict::Disturbed, note);
        }
        Ok(Self { period: settings.period, cpus, surroundings, validity })
    }
}

/// The directory of a CPU's idle states.
fn idle_directory(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle")
}

fn idle_states(host: &Host, cpu: usize) -> Vec<IdleState> {
    let read = |index: usize| {
        let state = format!("{}/state{index}", idle_directory(cpu));
        let name = host.line(&format!("{state}/name")).ok()?;
        let exit_latency_us = match host.number(&format!("{state}/latency")) {
            Ok(us) => Reading::Measured(u64::try_from(us).unwrap_or_default()),
            Err(error) => error.into_reading(),
        };
        Some(IdleState { name, exit_latency_us })
    };
    (0..).map_while(read).collect()
}

/// Kept-open `usage` files of a CPU's idle states, and two readings of them.
struct Usage {
    files: Vec<File>,
    before: Vec<u64>,
    after: Vec<u64>,
}

impl Usage {
    fn open(cpu: usize) -> Self {
        let directory = idle_directory(cpu);
        let files: Vec<_> = (0..)
            .map_while(|index| File::open(format!("{directory}/state{index}/usage")).ok())
            .collect();
        let zeros = vec![0; files.len()];
        Self { files, before: zeros.clone(), after: zeros }
    }

    /// Reads again, without allocating, and says what the CPU did since the last time.
    fn slumber(&mut self) -> Slumber {
        std::mem::swap(&mut self.before, &mut self.after);
        for (file, count) in self.files.iter().zip(&mut self.after) {
            let mut text = [0; 24];
            // A state that cannot be read any more does not grow.
            let length = file.read_at(&mut text, 0).unwrap_or_default();
            *count = decimal(&text[..length]);
        }
        Slumber::of(&self.before, &self.after)
    }
}

fn decimal(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

/// A thread that wakes up on time, with the memory it writes to.
struct Sleeper {
    duration: Nanos,
    period: Nanos,
    usage: Usage,
    lateness: Hist,
    states: Vec<Hist>,
    mixed: Hist,
    busy: Hist,
    unknown: Hist,
    missed: u64,
}

impl Sleeper {
    fn prepare(settings: &WakeSettings, cpu: usize) -> Result<Self, SpikeError> {
        clock::set_timer_slack(SLACK_NS)?;
        let usage = Usage::open(cpu);
        let hist = |config| {
            let mut hist = Hist::new(config);
            // Touches its memory.
            hist.clear();
            hist
        };
        let coarse = || hist(HistConfig::default());
        Ok(Self {
            duration: settings.duration,
            period: settings.period,
            states: usage.files.iter().map(|_| coarse()).collect(),
            usage,
            lateness: hist(FINE),
            mixed: coarse(),
            busy: coarse(),
            unknown: coarse(),
            missed: 0,
        })
    }

    fn sleep(mut self, start: u64, stop: &AtomicBool) -> Result<Self, SpikeError> {
        let deadline = start.saturating_add(self.duration.0);
        let mut due = start.saturating_add(self.period.0);
        self.usage.slumber();
        while due <= deadline && !stop.load(Ordering::Relaxed) {
            if clock::sleep_until(due)? == Slept::Interrupted {
                continue;
            }
            let now = KernelClock::Monotonic.now();
            let slumber = self.usage.slumber();
            due = self.woken(due, now, slumber);
        }
        Ok(self)
    }

    /// Records a wake-up and those that were missed over it; returns when the next one is due.
    fn woken(&mut self, due: u64, now: u64, slumber: Slumber) -> u64 {
        let late = now.saturating_sub(due);
        self.lateness.record(late);
        let hist = match slumber {
            Slumber::State(index) => self.states.get_mut(index).unwrap_or(&mut self.unknown),
            Slumber::Mixed => &mut self.mixed,
            Slumber::Busy => &mut self.busy,
            Slumber::Unknown => &mut self.unknown,
        };
        hist.record(late);
        let mut next = due.saturating_add(self.period.0);
        while next <= now {
            self.lateness.record(now - next);
            self.missed += 1;
            next = next.saturating_add(self.period.0);
        }
        next
    }

    fn seen(self, cpu: usize, states: Vec<IdleState>) -> CpuWake {
        let in_state = self.states.into_iter().enumerate();
        let by_slumber = in_state
            .map(|(index, hist)| (Slumber::State(index), hist))
            .chain([
                (Slumber::Mixed, self.mixed),
                (Slumber::Busy, self.busy),
                (Slumber::Unknown, self.unknown),
            ])
            .filter(|(_, hist)| !hist.is_empty())
            .collect();
        CpuWake { cpu, states, lateness: self.lateness, by_slumber, missed: self.missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_sys::sched;

    fn settings(period: Nanos) -> WakeSettings {
        let cpu = sched::affinity(sched::CALLER).unwrap().highest().unwrap();
        let cpus = [cpu].into_iter().collect();
        WakeSettings { cpus, duration: Nanos::from_ms(50), period, fifo: None }
    }

    #[test]
    fn a_wake_up_is_from_the_only_state_that_was_entered() {
        assert_eq!(Slumber::of(&[5, 7, 9], &[5, 8, 9]), Slumber::State(1));
        assert_eq!(Slumber::of(&[5, 7, 9], &[5, 12, 9]), Slumber::State(1));
        assert_eq!(Slumber::of(&[5, 7, 9], &[6, 7, 10]), Slumber::Mixed);
        assert_eq!(Slumber::of(&[5, 7, 9], &[5, 7, 9]), Slumber::Busy);
        assert_eq!(Slumber::of(&[], &[]), Slumber::Unknown);
    }

    #[test]
    fn missed_periods_are_late_from_when_they_were_due() {
        let mut sleeper = Sleeper::prepare(&settings(Nanos::from_us(100)), 0).unwrap();
        // Due at 100 µs, woken at 350 µs: those due at 200 and 300 µs were missed.
        let next = sleeper.woken(100_000, 350_000, Slumber::Busy);
        assert_eq!((next, sleeper.missed), (400_000, 2));
        assert_eq!(sleeper.lateness.count(), 3);
        assert_eq!(sleeper.lateness.min(), Some(50_000));
        assert_eq!(sleeper.lateness.max(), Some(250_000));
        assert_eq!(sleeper.busy.count(), 1);
        // On the dot counts as due, not as missed later.
        let next = sleeper.woken(400_000, 500_000, Slumber::Busy);
        assert_eq!((next, sleeper.missed), (600_000, 3));
    }

    #[test]
    fn a_usage_file_is_read_without_its_newline() {
        assert_eq!(decimal(b"1234\n"), 1234);
        assert_eq!(decimal(b"0\n"), 0);
        assert_eq!(decimal(b""), 0);
    }

    #[test]
    fn every_period_is_accounted_for() {
        let settings = settings(Nanos::from_ms(1));
        let wake = Wake::run(&settings, &Host::live(), &AtomicBool::new(false), |_| {}).unwrap();
        let cpu = &wake.cpus[0];
        let happened: u64 = cpu.by_slumber.iter().map(|(_, hist)| hist.count()).sum();
        assert_eq!(cpu.lateness.count(), happened + cpu.missed);
        // 50 periods in 50 ms; the last one's delay may carry it over more of them.
        assert!(cpu.lateness.count() >= 50, "{}", cpu.lateness.count());
    }

    #[test]
    fn periods_that_cannot_be_kept_are_refused() {
        for period in [Nanos(0), Nanos::from_us(49), Nanos::from_secs(11)] {
            let refused =
                Wake::run(&settings(period), &Host::live(), &AtomicBool::new(false), |_| {});
            assert!(matches!(refused, Err(SpikeError::Period(_))), "{period}");
        }
    }
}
