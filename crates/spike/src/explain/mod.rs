//! The tail of the user's own function, thread or published spans, taken apart: what the slowest had
//! that ordinary ones did not.
//!
//! All spans are counted; only the slowest and a sample of the ordinary ones are attributed, and
//! soon after they ended, while the recorder still holds what happened.

mod collect;
pub mod function;
mod rank;
mod sections;
pub mod symbols;
mod unwind;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use quietcore_bpf::ProbeCost;
use quietcore_bpf::{
    BpfError, FunctionProbe, Set, Settings, SpanCounts, Target, Watch, probe_cost,
};
use quietcore_measure::{Hist, Nanos, Spike, Thread, Validity, Verdict};
use quietcore_sys::{Host, live};
use thiserror::Error;

use crate::{Monitor, syscalls};
use collect::{Collector, Source};
pub use rank::{Part, rank};
use symbols::Symbols;
use unwind::Stacks;

/// How often the buffers are emptied.
const DRAIN: Duration = Duration::from_millis(20);
/// One call in so many is looked at whatever its length.
const ONE_IN: u32 = 64;
/// Waits shorter than this are not told apart from running.
const SHORTEST_WAIT: Nanos = Nanos(5_000);
/// Events kept per CPU: the tail is attributed a moment after it was.
const SLOTS: u32 = 1 << 16;
/// The process may have many threads, and the spans be many waits long.
const ROOM: u32 = 1 << 25;
/// By then the median is known well enough to judge the probes.
const PILOT_SPANS: u64 = 1_000;
const PILOT: Duration = Duration::from_secs(1);
/// The largest part of the median span that the probes may cost.
const MOST_COST: f64 = 0.05;

/// What is to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The calls of a function, and what the user calls it.
    Function(Target, String),
    /// The spans that a process publishes.
    Spans {
        /// The process.
        pid: u32,
    },
    /// The waits of a thread of a process.
    Thread {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
}

impl Subject {
    fn pid(&self) -> u32 {
        match self {
            Self::Function(target, _) => target.pid,
            Self::Spans { pid } | Self::Thread { pid, .. } => *pid,
        }
    }

    /// For people.
    pub fn name(&self) -> String {
        match self {
            Self::Function(_, name) => name.clone(),
            Self::Spans { pid } => format!("spans of process {pid}"),
            Self::Thread { tid, .. } => format!("waits of thread {tid}"),
        }
    }
}

/// How to explain.
#[derive(Clone, Debug)]
pub struct ExplainSettings {
    /// What.
    pub subject: Subject,
    /// How long to look.
    pub duration: Nanos,
    /// The part of all spans that is the tail, between 0 and 1.
    pub tail: f64,
    /// Go on although the probes cost more than 5 % of the median.
    pub force: bool,
}

/// What can go wrong.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// Nothing can be recorded.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The process publishes nothing that could be read.
    #[error(transparent)]
    Live(#[from] quietcore_sys::broadcast::BroadcastError),
    /// The process is gone or cannot be looked at.
    #[error("process {pid}: {error}")]
    Process {
        /// The process.
        pid: u32,
        /// The system's error.
        error: std::io::Error,
    },
    /// The probes would shape what they measure.
    #[error(
        "the probes cost {} per call, {percent:.0} % of the median span of {median} ({}); more than \
         5 % shapes what it measures: --force goes on regardless",
        .cost.per_call, .cost.beginning.about()
    )]
    TooCostly {
        /// What they cost.
        cost: ProbeCost,
        /// The median span without them.
        median: Nanos,
        /// The cost as a part of it.
        percent: f64,
    },
}

/// A wait for a lock, and who held it: whoever ended the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// When it began, in nanoseconds after the span did.
    pub at_ns: Nanos,
    /// Until it was ended.
    pub len_ns: Nanos,
    /// Who ended it.
    pub holder: Thread,
    /// Where the holder was then, innermost first.
    pub holder_path: Vec<String>,
    /// Where the thread waited, innermost first.
    pub path: Vec<String>,
}

/// A span that was attributed.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributed {
    /// What it was made of.
    pub spike: Spike,
    /// Its waits for locks.
    pub locks: Vec<LockWait>,
}

/// The tail, taken apart.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Of what.
    pub subject: Subject,
    /// The part of all spans that is the tail.
    pub tail: f64,
    /// The lengths of all spans, in nanoseconds.
    pub spans: Hist,
    /// The slowest, the longest first.
    pub slow: Vec<Attributed>,
    /// Some between the 25th and the 75th percentile.
    pub ordinary: Vec<Attributed>,
    /// What the probes cost, where there are any.
    pub cost: Option<ProbeCost>,
    /// What the probes counted.
    pub counts: SpanCounts,
    /// How far it can be trusted.
    pub validity: Validity,
}

/// Watches for a while and explains. `progress` is called with the time elapsed.
///
/// # Errors
/// [`ExplainError`].
pub fn explain(
    settings: &ExplainSettings,
    host: &Host,
    stop: &AtomicBool,
    mut progress: impl FnMut(Nanos),
    mut known: impl FnMut(&ProbeCost),
) -> Result<Explained, ExplainError> {
    let pid = settings.subject.pid();
    let mut recorder = Settings::new(Watch::Process(pid), SHORTEST_WAIT);
    recorder.sets = Set::ALL.to_vec();
    (recorder.slots, recorder.room) = (SLOTS, ROOM);
    // A thread may sleep as it likes; a function that sleeps takes that long.
    if let Subject::Thread { .. } = settings.subject {
        recorder.voluntary = syscalls::asked_to_sleep();
        recorder.timed = syscalls::locks();
    }
    let cost = match &settings.subject {
        Subject::Function(target, _) => Some(probe_cost(target)?),
        // Whether there are any is known before programs are loaded.
        Subject::Spans { pid } => live::Reader::open(*pid).map(|_| None)?,
        Subject::Thread { .. } => None,
    };
    if let Some(cost) = &cost {
        known(cost);
    }
    let process = |error| ExplainError::Process { pid, error };
    let symbols = Symbols::of(pid).map_err(process)?;
    let stacks = Stacks::of(&symbols);
    let mut monitor = Monitor::start(&recorder, host)?;
    let stops = monitor.watch_pauses(pid);
    let source = match &settings.subject {
        Subject::Function(target, _) => {
            let probe = FunctionProbe::start(target, ONE_IN, Some(SHORTEST_WAIT))?;
            Source::Function(Box::new(probe))
        }
        Subject::Spans { pid } => Source::Live(live::Reader::open(*pid)?),
        Subject::Thread { tid, .. } => Source::Waits(*tid),
    };
    let subject = (pid, settings.subject.name());
    let mut collector = Collector::new(monitor, source, subject, settings.tail, (symbols, stacks))?;
    let mut validity = Validity::default();
    if let Err(why) = stops {
        validity.note(Verdict::Valid, format!("stops by the process's runtime not seen: {why}"));
    }
    let (begin, mut judged) = (Instant::now(), settings.force);
    while begin.elapsed() < Duration::from(settings.duration) {
        if stop.load(Ordering::Relaxed) {
            validity.note(Verdict::Incomplete, "interrupted");
            break;
        }
        if !collector.process_lives() {
            validity.note(Verdict::Incomplete, format!("process {pid} ended"));
            break;
        }
        thread::sleep(DRAIN);
        collector.step()?;
        progress(Nanos(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)));
        let seen = collector.seen();
        if !judged && seen > 0 && (seen >= PILOT_SPANS || begin.elapsed() >= PILOT) {
            judge(cost, &collector.histogram())?;
            judged = true;
        }
    }
    collector.step()?;
    let spans = collector.histogram();
    if !judged {
        judge(cost, &spans)?;
    }
    let counts = collector.counts()?;
    let (slow, ordinary) = collector.finish(&spans, &mut validity);
    let (subject, tail) = (settings.subject.clone(), settings.tail);
    Ok(Explained { subject, tail, spans, slow, ordinary, cost, counts, validity })
}

/// Refuses probes that cost too much of what they measure.
fn judge(cost: Option<ProbeCost>, spans: &Hist) -> Result<(), ExplainError> {
    let (Some(cost), Some(median)) = (cost, spans.value_at(0.5)) else { return Ok(()) };
    // What was measured has the inner part of the cost in it.
    let median = Nanos(median.saturating_sub(cost.inside.0).max(1));
    let part = cost.per_call.0 as f64 / median.0 as f64;
    match part > MOST_COST {
        true => Err(ExplainError::TooCostly { cost, median, percent: part * 100.0 }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use quietcore_bpf::Beginning;
    use quietcore_measure::HistConfig;

    use super::*;

    #[test]
    fn probes_above_a_twentieth_of_the_median_without_them_are_refused() {
        let cost = ProbeCost {
            per_call: Nanos(1_000),
            inside: Nanos(600),
            beginning: Beginning::Emulated,
        };
        let of = |ns| {
            let mut hist = Hist::new(HistConfig::default());
            hist.record_n(ns, 10);
            hist
        };
        assert!(judge(Some(cost), &of(21_000)).is_ok());
        let refused = judge(Some(cost), &of(10_600)).unwrap_err().to_string();
        assert!(refused.contains("10 % of the median"), "{refused}");
        assert!(judge(Some(cost), &of(100)).is_err());
        assert!(judge(None, &of(1)).is_ok());
    }
}
