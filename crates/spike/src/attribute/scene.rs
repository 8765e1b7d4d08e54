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
    cpus: BTreeMap<u32, Vec<&'a Event>>,
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
        let mut cpus: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
        for event in &seen.events {
            cpus.entry(event.cpu).or_default().push(event);
        }
        for events in cpus.values_mut() {
            events.sort_by_key(|event| event.ts);
        }
        Self { window, seen, kernel, cpus }
    }

    pub fn tid(&self) -> u32 {
        self.window.thread.tid
    }

    /// The events of one CPU from a moment on.
    pub fn from(&self, cpu: u32, ts: u64) -> &[&'a Event] {
        let all = self.cpus.get(&cpu).map(Vec::as_slice).unwrap_or_default();
        &all[all.partition_point(|event| event.ts < ts)..]
    }

    /// The events of one CPU before a moment.
    pub fn before(&self, cpu: u32, ts: u64) -> &[&'a Event] {
        let all = self.cpus.get(&cpu).map(Vec::as_slice).unwrap_or_default();
        &all[..all.partition_point(|event| event.ts < ts)]
    }

    /// The events of one CPU in `[from, to]`.
    pub fn between(&self, cpu: u32, from: u64, to: u64) -> &[&'a Event] {
        let later = self.from(cpu, from);
        &later[..later.partition_point(|event| event.ts <= to)]
    }

    /// The events of all CPUs, one CPU after the other.
    pub fn everywhere(&self) -> impl Iterator<Item = &'a Event> + '_ {
        self.cpus.values().flatten().copied()
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

/// Who comes, where the event is a switch.
pub(super) fn comes<'a>(event: &'a Event) -> Option<Runner<'a>> {
    match &event.what {
        What::Switch { to, prio, comm, .. } => {
            Some(Runner { tid: *to, prio: *prio, comm, since: event.ts })
        }
        _ => None,
    }
}
