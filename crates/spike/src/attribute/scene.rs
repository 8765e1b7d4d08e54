//! What is known about a window, sorted for looking things up.

use std::collections::BTreeMap;

use quietcore_bpf::{Event, Set, What};
use quietcore_measure::Nanos;

use super::{Seen, Window};
use crate::kallsyms::Kallsyms;

/// A window and everything known about it.
pub(super) struct Scene<'a> {
    pub window: &'a Window,
    pub seen: &'a Seen,
    pub kernel: &'a Kallsyms,
    cpus: BTreeMap<u32, Cpu<'a>>,
    /// What the thread itself did, by time.
    own: Vec<&'a Event>,
    /// Requests of one CPU to another, by time.
    sent: Vec<&'a Event>,
    clocks: Vec<&'a Event>,
}

/// What happened on one CPU, by time.
#[derive(Default)]
struct Cpu<'a> {
    events: Vec<&'a Event>,
    /// For each event, when the first of it and all later ones began.
    earliest: Vec<u64>,
}

impl Cpu<'_> {
    fn sort(&mut self) {
        self.events.sort_by_key(|event| event.ts);
        let mut earliest = u64::MAX;
        let first = |event: &&Event| {
            earliest = earliest.min(began(event));
            earliest
        };
        self.earliest = self.events.iter().rev().map(first).collect();
        self.earliest.reverse();
    }
}

/// When an interrupt began; of all else, when it was.
pub(crate) fn began(event: &Event) -> u64 {
    match event.what {
        What::Irq { since, .. }
        | What::Softirq { since, .. }
        | What::Vector { since, .. }
        | What::Steal { since, .. } => since,
        What::Nmi { ns } => event.ts.saturating_sub(ns),
        _ => event.ts,
    }
}

/// Who has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Runner<'a> {
    pub tid: u32,
    pub prio: u16,
    comm: &'a quietcore_bpf::Name,
    /// Since when.
    pub since: u64,
}

impl Runner<'_> {
    pub fn is_idle(&self) -> bool {
        self.tid == 0
    }

    /// Of a real-time class, which precedes all others.
    pub fn is_real_time(&self) -> bool {
        self.prio < 100
    }

    pub fn name(&self) -> String {
        named(self.comm, self.tid)
    }
}

/// A task as reports name it.
pub(super) fn named(comm: &quietcore_bpf::Name, tid: u32) -> String {
    if tid == 0 { "idle".to_owned() } else { format!("{comm} (tid {tid})") }
}

impl<'a> Scene<'a> {
    pub fn new(window: &'a Window, seen: &'a Seen, kernel: &'a Kallsyms) -> Self {
        let mut cpus: BTreeMap<u32, Cpu<'_>> = BTreeMap::new();
        let (mut own, mut sent, mut clocks) = (Vec::new(), Vec::new(), Vec::new());
        for event in &seen.events {
            cpus.entry(event.cpu).or_default().events.push(event);
            match event.what {
                What::IpiSent { .. } => sent.push(event),
                What::Frequency { .. } => clocks.push(event),
                _ if concerns(event, window.thread.tid) => own.push(event),
                _ => {}
            }
        }
        cpus.values_mut().for_each(Cpu::sort);
        own.sort_by_key(|event| event.ts);
        sent.sort_by_key(|event| event.ts);
        clocks.sort_by_key(|event| event.ts);
        Self { window, seen, kernel, cpus, own, sent, clocks }
    }

    pub fn tid(&self) -> u32 {
        self.window.thread.tid
    }

    fn cpu(&self, cpu: u32) -> &[&'a Event] {
        self.cpus.get(&cpu).map(|cpu| cpu.events.as_slice()).unwrap_or_default()
    }

    /// The events of one CPU that ended at `start` or later and began before `end`, and others.
    pub fn overlapping(&self, cpu: u32, start: u64, end: u64) -> impl Iterator<Item = &'a Event> {
        let none = Cpu::default();
        let Cpu { events, earliest } = self.cpus.get(&cpu).unwrap_or(&none);
        let from = events.partition_point(|event| event.ts < start);
        let later = events[from..].iter().zip(&earliest[from..]);
        let found: Vec<_> =
            later.take_while(|(_, began)| **began < end).map(|(event, _)| *event).collect();
        found.into_iter()
    }

    /// What the thread itself did, by time.
    pub fn own(&self) -> &[&'a Event] {
        &self.own
    }

    /// Whether any of `[start, end)` is within the window.
    pub fn is_within(&self, start: u64, end: u64) -> bool {
        start < self.window.end_ns && self.window.start_ns < end
    }

    /// What was asked of other CPUs in `[from, to]`, by time.
    pub fn sent(&self, from: u64, to: u64) -> &[&'a Event] {
        let later = &self.sent[self.sent.partition_point(|event| event.ts < from)..];
        &later[..later.partition_point(|event| event.ts <= to)]
    }

    /// The events of one CPU before a moment.
    pub fn before(&self, cpu: u32, ts: u64) -> &[&'a Event] {
        let all = self.cpu(cpu);
        &all[..all.partition_point(|event| event.ts < ts)]
    }

    /// The events of one CPU in `[from, to]`.
    pub fn between(&self, cpu: u32, from: u64, to: u64) -> &[&'a Event] {
        let all = self.cpu(cpu);
        let later = &all[all.partition_point(|event| event.ts < from)..];
        &later[..later.partition_point(|event| event.ts <= to)]
    }

    /// Whether anything is known of a CPU after a moment.
    pub fn is_followed(&self, cpu: u32, ts: u64) -> bool {
        self.cpu(cpu).last().is_some_and(|event| event.ts > ts)
    }

    /// For how long of a stretch a CPU idled, asleep.
    pub fn idle(&self, cpu: u32, start: u64, end: u64) -> u64 {
        let mark = |event: &&Event| match event.what {
            What::Idle { state } => Some((event.ts, state.is_some_and(|state| state > 0))),
            What::Switch { to, .. } if to != 0 => Some((event.ts, false)),
            _ => None,
        };
        let stood = self.before(cpu, start).iter().rev().find_map(mark);
        let mut since = stood.filter(|stood| stood.1).map(|_| start);
        let mut sum = 0;
        for (ts, sleeps) in self.between(cpu, start, end).iter().filter_map(mark) {
            match sleeps {
                true => since = since.or(Some(ts)),
                false => sum += since.take().map_or(0, |since| ts - since),
            }
        }
        sum + since.map_or(0, |since| end.saturating_sub(since))
    }

    /// The changes of the CPUs' clocks, by time.
    pub fn clocks(&self) -> &[&'a Event] {
        &self.clocks
    }

    /// The events of all CPUs, one CPU after the other.
    pub fn everywhere(&self) -> impl Iterator<Item = &'a Event> + '_ {
        self.cpus.values().flat_map(|cpu| cpu.events.iter().copied())
    }

    /// Whether a set was recorded.
    pub fn has(&self, set: Set) -> bool {
        self.seen.sets.contains(&set)
    }

    /// Who got this CPU last, at the moment or before.
    pub fn runner(&self, cpu: u32, ts: u64) -> Option<Runner<'a>> {
        self.before(cpu, ts.saturating_add(1)).iter().rev().find_map(|event| comes(event))
    }

    /// A kernel function's name, or its address.
    pub fn function(&self, address: u64) -> String {
        self.kernel.name(address).map_or_else(|| format!("{address:#x}"), str::to_owned)
    }

    /// A kernel stack in one line, innermost first.
    pub fn stack(&self, frames: &[u64]) -> String {
        let names: Vec<_> = frames.iter().map(|&frame| self.function(frame)).collect();
        names.join(" < ")
    }

    /// A moment as evidence names it: from the beginning of the window.
    pub fn at(&self, ts: u64) -> String {
        match ts.checked_sub(self.window.start_ns) {
            Some(after) => format!("+{}", Nanos(after)),
            None => format!("-{}", Nanos(self.window.start_ns - ts)),
        }
    }
}

/// Whether it is something that a thread did, or that was done to it.
fn concerns(event: &Event, thread: u32) -> bool {
    match event.what {
        What::Switch { from, to, .. } => from == thread || to == thread,
        What::Fault { tid, .. }
        | What::FaultEnd { tid }
        | What::Syscall { tid, .. }
        | What::Reclaim { tid, .. }
        | What::Compaction { tid, .. }
        | What::MmapLock { tid, .. } => tid == thread,
        _ => false,
    }
}

/// Who comes, where the event is a switch.
pub(super) fn comes<'a>(event: &'a Event) -> Option<Runner<'a>> {
    match &event.what {
        What::Switch { to, prio, comm, .. } => {
            Some(Runner { tid: *to, prio: *prio, comm, since: event.ts })
        }
        _ => None,
    }
}
