//! Which spans are worth attributing, while they can be.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use quietcore_bpf::{BpfError, FunctionProbe, Span, SpanCounts, UserPath, Wait};
use quietcore_measure::{Hist, HistConfig, Nanos, Thread, Validity, Verdict};
use quietcore_sys::clock::KernelClock;
use quietcore_sys::live;

use super::symbols::Symbols;
use super::unwind::Stacks;
use super::{Attributed, ExplainError, LockWait, ONE_IN};
use crate::{Monitor, Window};

/// Attribution takes at most so long between two drainings: what waits longer is overwritten.
const BUDGET: Duration = Duration::from_millis(10);
/// Ordinary spans attributed per draining.
const ORDINARY_PER_STEP: usize = 4;
/// Slow spans that are kept, and ordinary ones.
const SLOW: usize = 2_000;
const ORDINARY: usize = 2_000;
/// Waits kept of each thread, for the span that is not over yet.
const WAITS: usize = 4_096;
/// Paths kept until their span is over.
const PATHS: usize = 1_024;
/// Two programs take the time of the same switch within this.
const SAME_SWITCH: u64 = 100_000;
/// The threshold follows the tail after so many drainings, or so many spans in one.
const FOLLOW_EVERY: u64 = 10;
const FOLLOW_FROM: u64 = 1_000;
/// What is handed over is so many times the tail: lengths drift.
const SLACK: f64 = 4.0;

/// The number of futex(2).
const FUTEX: u32 = if cfg!(target_arch = "x86_64") { 202 } else { 98 };

/// Where spans come from.
#[derive(Debug)]
pub(super) enum Source {
    Function(Box<FunctionProbe>),
    Live(live::Reader),
    /// The waits of this thread are the spans.
    Waits(u32),
}

#[derive(Debug)]
pub(super) struct Collector {
    monitor: Monitor,
    source: Source,
    pid: u32,
    /// What the user calls it.
    subject: String,
    tail: f64,
    symbols: Symbols,
    /// Of spans that are counted here, not in the kernel.
    hist: Hist,
    waits: BTreeMap<u32, VecDeque<Wait>>,
    paths: VecDeque<UserPath>,
    stacks: Stacks,
    /// Where a probed function returns to instead.
    trampoline: Option<u64>,
    lost_before: u64,
    /// What began earlier has waits that were thrown away.
    ready_ns: u64,
    comms: BTreeMap<u32, String>,
    slow: Vec<Attributed>,
    ordinary: Vec<Attributed>,
    threshold: u64,
    steps: u64,
    seen: u64,
}

impl Collector {
    pub fn new(
        monitor: Monitor,
        source: Source,
        (pid, subject): (u32, String),
        tail: f64,
        (symbols, stacks): (Symbols, Stacks),
    ) -> Result<Self, BpfError> {
        let mut monitor = monitor;
        // What was recorded before there were spans is in the way.
        monitor.waits()?;
        let lost_before = monitor.counts()?.dropped;
        Ok(Self {
            monitor,
            source,
            pid,
            subject,
            tail,
            symbols,
            stacks,
            trampoline: None,
            hist: Hist::new(HistConfig::default()),
            waits: BTreeMap::new(),
            paths: VecDeque::new(),
            lost_before,
            ready_ns: KernelClock::Monotonic.now(),
            comms: BTreeMap::new(),
            slow: Vec::new(),
            ordinary: Vec::new(),
            threshold: 0,
            steps: 0,
            seen: 0,
        })
    }

    pub fn process_lives(&self) -> bool {
        Path::new(&format!("/proc/{}", self.pid)).exists()
    }

    /// Spans that were handed over so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Takes what came since the last time and attributes what is worth it.
    pub fn step(&mut self) -> Result<(), ExplainError> {
        // Spans first: the waits of whatever is over by now are there afterwards.
        let mut spans = match &mut self.source {
            Source::Function(probe) => probe.spans()?,
            Source::Live(reader) => reader.spans()?.into_iter().map(published).collect(),
            Source::Waits(_) => Vec::new(),
        };
        // A stolen stretch is in the recorder, too; the thread did not wait.
        if let Source::Function(probe) = &mut self.source {
            self.paths.extend(probe.paths());
            let old = self.paths.len().saturating_sub(PATHS);
            self.paths.drain(..old);
        }
        for wait in self.monitor.waits()?.into_iter().filter(|wait| !wait.flags.stolen) {
            if let Source::Waits(tid) = self.source {
                if wait.tid == tid {
                    spans.push(span_of(&wait));
                }
            }
            let waits = self.waits.entry(wait.tid).or_default();
            waits.push_back(wait);
        }
        if !matches!(self.source, Source::Function(_)) {
            for span in &mut spans {
                self.hist.record(span.len_ns());
                span.sampled = self.hist.count() % u64::from(ONE_IN) == 0;
            }
        }
        let many = spans.len() as u64 >= FOLLOW_FROM;
        self.seen += spans.len() as u64;
        spans.retain(|span| span.start_ns >= self.ready_ns);
        let (slow, ordinary) = self.worth_it(spans);
        self.attribute_all(&slow, BUDGET);
        self.attribute_all(&ordinary, BUDGET / 4);
        for waits in self.waits.values_mut() {
            let old = waits.len().saturating_sub(WAITS);
            waits.drain(..old);
        }
        self.steps += 1;
        if many || self.steps % FOLLOW_EVERY == 0 {
            self.follow();
        }
        Ok(())
    }

    /// The longest, as far as they may belong to the tail, and a few of the ordinary ones.
    fn worth_it(&self, mut spans: Vec<Span>) -> (Vec<Span>, Vec<Span>) {
        // Until there is a threshold, all are handed over, and any is an ordinary one.
        let any = self.threshold == 0;
        let wanted = ORDINARY.saturating_sub(self.ordinary.len()).min(ORDINARY_PER_STEP);
        let stride = if any { spans.len().div_ceil(ORDINARY_PER_STEP).max(1) } else { 1 };
        let ordinary = spans.iter().filter(|span| any || span.sampled).step_by(stride);
        let ordinary: Vec<Span> =
            ordinary.take(wanted).map(|span| Span { sampled: true, ..*span }).collect();
        spans.retain(|span| span.len_ns() >= self.threshold);
        spans.sort_by_key(|span| std::cmp::Reverse(span.len_ns()));
        spans.iter_mut().for_each(|span| span.sampled = false);
        (spans, ordinary)
    }

    /// As many as the time allows, but one in any case.
    fn attribute_all(&mut self, spans: &[Span], budget: Duration) {
        let begin = Instant::now();
        for span in spans {
            self.attribute(span);
            if begin.elapsed() > budget {
                return;
            }
        }
    }

    fn attribute(&mut self, span: &Span) {
        let within = |wait: &&Wait| wait.in_ts > span.start_ns && wait.out_ts < span.end_ns;
        let waits: Vec<Wait> =
            self.waits.get(&span.tid).into_iter().flatten().filter(within).cloned().collect();
        let cpu = match self.source {
            Source::Live(_) => self.cpu_at(span.tid, span.end_ns),
            Source::Function(_) | Source::Waits(_) => span.cpu,
        };
        let window = Window {
            thread: self.thread(span.tid),
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            cpu,
            spins: false,
            gaps: None,
        };
        let locks: Vec<LockWait> =
            waits.iter().filter_map(|wait| self.lock_wait(span, wait)).collect();
        let mut spike = self.monitor.window(&window, waits);
        if let Some(longest) = locks.iter().max_by_key(|lock| lock.len_ns) {
            spike.stack.clone_from(&longest.path);
        }
        let attributed = Attributed { spike, locks };
        if span.sampled {
            self.ordinary.push(attributed);
            return;
        }
        self.slow.push(attributed);
        if self.slow.len() >= 2 * SLOW {
            self.slow.sort_by_key(|slow| std::cmp::Reverse(slow.spike.len_ns));
            self.slow.truncate(SLOW);
        }
    }

    /// Whoever ended a wait on a futex held what it was for.
    fn lock_wait(&mut self, span: &Span, wait: &Wait) -> Option<LockWait> {
        let by_a_task = !wait.flags.in_irq && !wait.flags.in_softirq && !wait.flags.preempted;
        let is_lock = wait.syscall == Some(FUTEX) && by_a_task;
        let (waker, waking) = (wait.waker.filter(|_| is_lock)?, wait.waking_ts?);
        let holder = Thread { tid: waker.tid, pid: waker.tgid, comm: waker.comm.to_string() };
        // By frame pointers there is at least the function that made the system call.
        let holder_path = self
            .path(wait, true)
            .unwrap_or_else(|| wait.waker_user.iter().map(|&ip| self.symbols.name(ip)).collect());
        let path = self
            .path(wait, false)
            .unwrap_or_else(|| wait.user.iter().map(|user| self.symbols.name(user.ip)).collect());
        Some(LockWait {
            at_ns: Nanos(wait.out_ts.saturating_sub(span.start_ns)),
            len_ns: Nanos(waking.saturating_sub(wait.out_ts)),
            holder,
            holder_path,
            path,
        })
    }

    /// The names on the stack of who waited, or of who ended the wait, innermost first.
    fn path(&mut self, wait: &Wait, of_waker: bool) -> Option<Vec<String>> {
        let same = |path: &&UserPath| {
            path.tid == wait.tid
                && path.of_waker == of_waker
                && path.out_ts.abs_diff(wait.out_ts) < SAME_SWITCH
        };
        let path = self.paths.iter().rev().find(same).filter(|path| !path.stack.is_empty())?;
        let (mut addresses, mut whole) = self.stacks.walk(path);
        self.trampoline = self.trampoline.or_else(|| trampoline(self.pid));
        // Who called the function cannot be told: the probe has taken its place.
        let probed = addresses.iter().position(|&at| Some(at + 1) == self.trampoline);
        if let Some(probed) = probed {
            addresses.truncate(probed);
            whole = true;
        }
        let mut names: Vec<String> =
            addresses.into_iter().map(|address| self.symbols.name(address)).collect();
        // Called as the last thing that it does, another function takes its frame.
        if probed.is_some() && names.last() != Some(&self.subject) {
            names.push(self.subject.clone());
        }
        if !whole {
            names.push("[cut]".to_owned());
        }
        Some(names)
    }

    /// Where a thread was at a moment: it stays where it last came back from a wait.
    fn cpu_at(&self, tid: u32, at_ns: u64) -> u32 {
        let waits = self.waits.get(&tid);
        let last = waits.and_then(|waits| waits.iter().rev().find(|wait| wait.in_ts <= at_ns));
        let now = || {
            let stat = fs::read_to_string(format!("/proc/{}/task/{tid}/stat", self.pid)).ok()?;
            // Field 39 of proc(5); the second may hold blanks.
            stat.rsplit_once(") ")?.1.split_whitespace().nth(36)?.parse().ok()
        };
        last.map(|wait| wait.in_cpu).or_else(now).unwrap_or_default()
    }

    fn thread(&mut self, tid: u32) -> Thread {
        let pid = self.pid;
        let comm = self.comms.entry(tid).or_insert_with(|| {
            let comm = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
            comm.unwrap_or_default().trim_end().to_owned()
        });
        Thread { tid, pid, comm: comm.clone() }
    }

    /// Moves the threshold to where the tail begins, with some slack.
    fn follow(&mut self) {
        let spans = self.histogram();
        if spans.count() < FOLLOW_FROM {
            return;
        }
        self.threshold = spans.value_at(1.0 - (self.tail * SLACK).min(1.0)).unwrap_or_default();
        if let Source::Function(probe) = &mut self.source {
            probe.keep_over(self.threshold);
        }
    }

    /// The lengths of all spans so far.
    pub fn histogram(&self) -> Hist {
        match &self.source {
            Source::Function(probe) => probe.histogram(),
            _ => self.hist.clone(),
        }
    }

    pub fn counts(&self) -> Result<SpanCounts, BpfError> {
        match &self.source {
            Source::Function(probe) => probe.counts(),
            Source::Live(reader) => Ok(SpanCounts {
                sent: self.seen,
                dropped: reader.missed(),
                ..SpanCounts::default()
            }),
            Source::Waits(_) => Ok(SpanCounts { sent: self.seen, ..SpanCounts::default() }),
        }
    }

    /// The tail and the ordinary spans, of all that were attributed.
    pub fn finish(
        mut self,
        spans: &Hist,
        validity: &mut Validity,
    ) -> (Vec<Attributed>, Vec<Attributed>) {
        let count = (spans.count() as f64 * self.tail).ceil() as usize;
        self.slow.sort_by_key(|slow| std::cmp::Reverse(slow.spike.len_ns));
        self.slow.truncate(count.min(SLOW));
        if let (Some(low), Some(high)) = (spans.value_at(0.25), spans.value_at(0.75)) {
            self.ordinary.retain(|span| (low..=high).contains(&span.spike.len_ns.0));
        }
        let shortest = self.slow.last().map_or(0, |slow| slow.spike.len_ns.0);
        let cut = spans.value_at(1.0 - self.tail).unwrap_or_default();
        // A histogram's value is the largest of its bucket, which is less than 1 % wide.
        let all = self.slow.len() >= count || shortest > cut;
        if !all || shortest + shortest / 64 < cut {
            let note = "some of the slowest could not be attributed in time; shorter ones are";
            validity.note(Verdict::Incomplete, note);
        }
        if self.ordinary.is_empty() && count > 0 {
            validity.note(Verdict::Incomplete, "no ordinary span was attributed to compare with");
        }
        let lost = self.monitor.counts().map_or(0, |counts| counts.dropped);
        let lost = lost.saturating_sub(self.lost_before);
        if lost > 0 {
            validity.lost_events += lost;
            validity.note(Verdict::Incomplete, format!("{lost} waits were lost for want of room"));
        }
        if let Some(counts) = self.counts().ok().filter(|counts| counts.dropped > 0) {
            validity.lost_events += counts.dropped;
            let note = format!("{} spans were counted but not handed over", counts.dropped);
            validity.note(Verdict::Incomplete, note);
        }
        let cut = self.slow.iter().filter(|slow| slow.spike.incomplete.is_some()).count();
        if cut > 0 {
            let note = format!(
                "of {cut} slow spans not all events were there any more; they are not ranked"
            );
            validity.note(Verdict::Incomplete, note);
        }
        (self.slow, self.ordinary)
    }
}

/// Where the kernel has mapped what probed functions return to.
fn trampoline(pid: u32) -> Option<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let line = maps.lines().find(|line| line.ends_with("[uprobes]"))?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

/// On which CPU it ended comes later, from where the thread last came back to.
fn published(span: live::LiveSpan) -> Span {
    let live::LiveSpan { tid, start_ns, end_ns, .. } = span;
    Span { start_ns, end_ns, tid, cpu: 0, sampled: false }
}

fn span_of(wait: &Wait) -> Span {
    Span {
        start_ns: wait.out_ts,
        end_ns: wait.in_ts,
        tid: wait.tid,
        cpu: wait.in_cpu,
        sampled: false,
    }
}
