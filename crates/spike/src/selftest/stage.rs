//! Where an injector works: its CPUs, its time, and how it says what happened.

use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use quietcore_measure::{CpuSet, Nanos};
use quietcore_sys::clock::{self, KernelClock};
use quietcore_sys::sched::{self, Class};
use rustix::time::{ClockId, clock_getres};

pub use super::protocol::Span;
use super::protocol::{Line, Report};

/// A real-time victim spins for so long, then lets others in: the kernel would force it to.
const SPIN: u64 = 80_000_000;
const REST: Duration = Duration::from_millis(15);

/// How often what happened is written down, away from the victim's CPU.
const FLUSH: Duration = Duration::from_millis(10);

/// Why a cause cannot be had here.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotHere(pub String);

impl From<io::Error> for NotHere {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<sched::SchedError> for NotHere {
    fn from(error: sched::SchedError) -> Self {
        Self(error.to_string())
    }
}

impl From<rustix::io::Errno> for NotHere {
    fn from(error: rustix::io::Errno) -> Self {
        Self(error.to_string())
    }
}

/// Where an injector works.
#[derive(Debug)]
pub struct Stage {
    /// The victim's CPU.
    pub cpu: usize,
    /// What counts as felt.
    pub threshold: Nanos,
    elsewhere: CpuSet,
    duration: Nanos,
    stop: &'static AtomicBool,
    /// Nanoseconds between two ticks, and when one is due.
    tick: (u64, Option<u64>),
    name: String,
    lines: Mutex<Sender<Line>>,
}

/// The present, on CLOCK_MONOTONIC.
pub fn now() -> u64 {
    KernelClock::Monotonic.now()
}

impl Stage {
    /// Runs an injector: everything but the victim stays away from `cpu`. Writes lines to stdout.
    ///
    /// # Errors
    /// The system's, where a line cannot be written.
    pub fn play(
        cpu: usize,
        threshold: Nanos,
        duration: Nanos,
        stop: &'static AtomicBool,
        run: fn(&Self) -> Result<(), NotHere>,
    ) -> io::Result<()> {
        let (sender, lines) = mpsc::channel();
        let allowed = sched::affinity(sched::CALLER).map_err(io::Error::other)?;
        // Only a CPU that is busy has a tick, and that is the one this runs on.
        sched::place(sched::CALLER, &[cpu].into_iter().collect()).map_err(io::Error::other)?;
        let tick = tick(cpu);
        let elsewhere = allowed.minus(&[cpu].into_iter().collect());
        if !elsewhere.is_empty() {
            sched::place(sched::CALLER, &elsewhere).map_err(io::Error::other)?;
        }
        let name = format!("{:x}", random() >> 24);
        let stage = Self {
            cpu,
            threshold,
            elsewhere,
            duration,
            stop,
            tick,
            name,
            lines: Mutex::new(sender),
        };
        thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let mut open = true;
                while open {
                    thread::sleep(FLUSH);
                    let mut text = String::new();
                    loop {
                        match lines.try_recv() {
                            Ok(line) => text += &format!("{line}\n"),
                            Err(mpsc::TryRecvError::Empty) => break,
                            Err(mpsc::TryRecvError::Disconnected) => {
                                open = false;
                                break;
                            }
                        }
                    }
                    let mut out = io::stdout().lock();
                    out.write_all(text.as_bytes())?;
                    out.flush()?;
                }
                Ok(())
            });
            if stage.elsewhere.is_empty() {
                stage.say(Line::NotHere("there is only one CPU".into()));
            } else if let Err(why) = run(&stage) {
                stage.say(Line::NotHere(why.to_string()));
            }
            drop(stage);
            writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer died")))
        })
    }

    fn say(&self, line: Line) {
        // The writer is gone only when stdout is.
        let _ = self.sender().send(line);
    }

    fn sender(&self) -> Sender<Line> {
        self.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// A log for one thread.
    pub fn log(&self) -> Log {
        Log(self.sender())
    }

    /// A name that nobody can know in advance, for a thread.
    pub fn name(&self, what: &str) -> String {
        format!("{what}{}", self.name).chars().take(15).collect()
    }

    /// Declares the calling thread the victim, on its CPU, and waits until all is ready.
    ///
    /// # Errors
    /// Where it cannot be placed, or be real-time if that is asked for.
    pub fn be_victim(&self, class: Class) -> Result<Victim<'_>, NotHere> {
        sched::place(sched::CALLER, &[self.cpu].into_iter().collect())?;
        let log = self.present(sched::thread_id().unsigned_abs())?;
        sched::set_class(sched::CALLER, class)?;
        Ok(Victim { log, stage: self, class })
    }

    /// Declares a thread the victim and waits until all is ready. From then on the end of stdin,
    /// which is that of whoever asked, and the end of the time stop everything.
    ///
    /// # Errors
    /// Where stdin cannot be read.
    pub fn present(&self, tid: u32) -> Result<Log, NotHere> {
        let cpu = u32::try_from(self.cpu).unwrap_or(u32::MAX);
        self.say(Line::Victim { tid, cpu });
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        let (stop, duration) = (self.stop, Duration::from(self.duration));
        thread::spawn(move || {
            let mut line = String::new();
            while io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {}
            stop.store(true, Ordering::Relaxed);
        });
        thread::spawn(move || {
            thread::sleep(duration);
            stop.store(true, Ordering::Relaxed);
        });
        Ok(self.log())
    }

    /// Starts a helper on the other CPUs, real-time if that is allowed so that its log is exact.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn helper<'scope, T: Send + 'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        what: &str,
        body: impl FnOnce(Log) -> T + Send + 'scope,
    ) -> Result<ScopedJoinHandle<'scope, T>, NotHere> {
        let log = self.log();
        let name = self.name(what);
        Ok(thread::Builder::new().name(name).spawn_scoped(scope, move || {
            let _ = sched::place(sched::CALLER, &self.elsewhere);
            let _ = sched::set_class(sched::CALLER, Class::Fifo { priority: 5 });
            let _ = clock::set_timer_slack(1);
            body(log)
        })?)
    }

    /// Whether time is up.
    pub fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The ticks' period and when one of them is due on the victim's CPU, where that can be known.
    pub fn tick(&self) -> (u64, Option<u64>) {
        self.tick
    }

    /// A moment at least `after` nanoseconds from `from` on that is far from any tick.
    pub fn quiet_moment(&self, from: u64, after: u64) -> u64 {
        let (period, due) = (self.tick.0, self.tick.1.unwrap_or_default());
        let at = from + after;
        let phase = (at + period - due % period) % period;
        let quiet: Range<u64> = period / 4..period * 3 / 4;
        let spread = random() % (quiet.end - quiet.start);
        match quiet.contains(&phase) {
            true => at,
            false => at + (quiet.start + spread + period - phase) % period,
        }
    }

    /// Sleeps until such a moment.
    pub fn pause(&self, after: u64) {
        let until = self.quiet_moment(now(), after);
        while !self.over() && now() < until {
            let _ = clock::sleep_until(until.min(now() + 50_000_000));
        }
    }
}

/// A victim at its post.
#[derive(Debug)]
pub struct Victim<'a> {
    /// Where it notes what it felt.
    pub log: Log,
    stage: &'a Stage,
    class: Class,
}

impl Victim<'_> {
    /// Whether there is time left.
    pub fn goes_on(&self) -> bool {
        !self.stage.over()
    }

    /// Spins and notes every gap.
    pub fn spin(&self) {
        let threshold = self.stage.threshold.0;
        while self.goes_on() {
            let begin = now();
            let mut before = begin;
            while before - begin < SPIN && !self.stage.over() {
                let after = now();
                if after - before >= threshold {
                    self.log.felt(Span { start: before, end: after });
                    before = now();
                } else {
                    before = after;
                }
            }
            if self.class.is_realtime() {
                thread::sleep(REST);
            }
        }
    }

    /// As [`Victim::spin`], where a gap over the threshold can have only the one cause.
    pub fn spin_causing(&self) {
        let mut before = now();
        while self.goes_on() {
            let after = now();
            if after - before >= self.stage.threshold.0 {
                let span = Span { start: before, end: after };
                self.log.caused(span);
                self.log.felt(span);
            }
            before = after;
        }
    }

    /// Notes what began at `start` and has just ended, if it took long.
    pub fn took_since(&self, start: u64) {
        let end = now();
        if end - start >= self.stage.threshold.0 {
            self.log.felt(Span { start, end });
        }
    }
}

/// Where a thread notes what happened; nobody is woken for it.
#[derive(Clone, Debug)]
pub struct Log(Sender<Line>);

impl Log {
    /// Something happened.
    pub fn say(&self, what: Report, span: Span) {
        let _ = self.0.send(Line::Span(what, span));
    }

    /// The victim felt something.
    pub fn felt(&self, span: Span) {
        self.say(Report::Felt, span);
    }

    /// A cause was at work.
    pub fn caused(&self, span: Span) {
        self.say(Report::Caused, span);
    }

    /// Does something that is a cause.
    pub fn causing<T>(&self, what: impl FnOnce() -> T) -> T {
        let start = now();
        let result = what();
        self.caused(Span { start, end: now() });
        result
    }
}

/// A number from the system's randomness.
pub fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(now())
}

/// The ticks' period and when one of them is due on the CPU that this runs on, as the kernel's own
/// list of timers says; `None` where that cannot be read.
fn tick(cpu: usize) -> (u64, Option<u64>) {
    let resolution = clock_getres(ClockId::MonotonicCoarse);
    let period = resolution.tv_nsec.unsigned_abs().max(1);
    let list = fs::read_to_string("/proc/timer_list").unwrap_or_default();
    (period, tick_due(&list, cpu))
}

/// The tick's moment in the text of /proc/timer_list.
fn tick_due(list: &str, cpu: usize) -> Option<u64> {
    let head = format!("cpu: {cpu}");
    let mut lines = list.lines().skip_while(|line| *line != head).skip(1);
    lines.by_ref().take_while(|line| !line.starts_with("cpu: ")).find(|line| {
        ["tick_nohz_handler", "tick_sched_timer"].iter().any(|name| line.contains(name))
    })?;
    let expires = lines.next()?.trim_start().strip_prefix("# expires at ")?;
    expires.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tick_of_each_cpu_is_found_among_its_timers() {
        let list = "Timer List Version: v0.10\ncpu: 0\n clock 0:\n #0: <0>, hrtimer_wakeup, S:01\n \
                    # expires at 5-6 nsecs [in 1 to 2 nsecs]\n #1: <0>, tick_nohz_handler, S:01\n \
                    # expires at 4000000-4000000 nsecs [in 9 to 9 nsecs]\n\ncpu: 1\n \
                    #0: <0>, tick_sched_timer, S:01\n # expires at 6000000-6000000 nsecs [in 1 to 1 nsecs]\n\
                    cpu: 2\n #0: <0>, hrtimer_wakeup, S:01\n # expires at 7-7 nsecs\n";
        let due = [0, 1, 2, 3].map(|cpu| tick_due(list, cpu));
        assert_eq!(due, [Some(4_000_000), Some(6_000_000), None, None]);
    }
}
