//! Events that are kept longer than the recorder keeps them.
//!
//! The recorder overwrites its oldest. Who learns of a gap only afterwards, as from a spinning
//! thread, pulls the events as they come and asks later.

use std::collections::VecDeque;

use quietcore_bpf::{BpfError, Event, Pause, Set, Timeline, Wait, What};
use quietcore_measure::{CpuSet, Spike};
use quietcore_sys::Host;

use crate::attribute::{Seen, Window, attribute};
use crate::kallsyms::Kallsyms;

/// How long before a window its events are looked at: what runs when it begins came earlier.
const BEFORE: u64 = 1_000_000;

/// How long after a window: what goes on when it ends is written when that is over.
const AFTER: u64 = 1_000_000;

/// Events that are kept per CPU: 64 MB at most.
const ROOM: usize = 1 << 20;

/// Events of all CPUs since it was made, bounded.
#[derive(Debug)]
pub struct Tape {
    tracks: Vec<Track>,
    waits: VecDeque<Wait>,
    pauses: VecDeque<Pause>,
    sets: Vec<Set>,
    kernel: Kallsyms,
}

/// What one CPU recorded.
#[derive(Debug)]
struct Track {
    /// Whether all of it is kept, or only what it did to other CPUs.
    whole: bool,
    events: VecDeque<Event>,
    last: u64,
    /// Stretches of which events are missing.
    holes: Vec<(u64, u64)>,
}

impl Tape {
    /// Begins now. Of CPUs not in `whole` only what they did to others is kept.
    pub fn new(timeline: &Timeline, whole: &CpuSet, host: &Host) -> Self {
        let kernel = host.read("/proc/kallsyms").map(|text| Kallsyms::parse(&text));
        let track = |cpu: u32| Track {
            whole: whole.contains(cpu as usize),
            events: VecDeque::new(),
            last: timeline.recorded(cpu),
            holes: Vec::new(),
        };
        let tracks = (0..timeline.cpus()).map(track).collect();
        let sets = timeline.sets();
        let (waits, pauses) = Default::default();
        Self { tracks, waits, pauses, sets, kernel: kernel.unwrap_or_default() }
    }

    /// Takes what was recorded since the last time.
    ///
    /// # Errors
    /// [`BpfError`] where the recorder cannot be read.
    pub fn pull(&mut self, timeline: &mut Timeline) -> Result<(), BpfError> {
        for (cpu, track) in (0..).zip(&mut self.tracks) {
            track.pull(timeline, cpu);
        }
        // Time that an interrupt took from a running thread is no wait.
        self.waits.extend(timeline.waits()?.into_iter().filter(|wait| !wait.flags.stolen));
        self.pauses.extend(timeline.pauses());
        let old = self.waits.len().saturating_sub(ROOM / 16);
        self.waits.drain(..old);
        let old = self.pauses.len().saturating_sub(ROOM / 16);
        self.pauses.drain(..old);
        Ok(())
    }

    /// Drops what ended before a moment.
    pub fn forget(&mut self, before_ns: u64) {
        let old = before_ns.saturating_sub(BEFORE);
        for track in &mut self.tracks {
            while track.events.front().is_some_and(|event| event.ts < old) {
                track.events.pop_front();
            }
        }
        self.waits.retain(|wait| wait.in_ts >= old);
        self.pauses.retain(|pause| pause.end >= old);
    }

    /// Explains a window with what was kept.
    pub fn explain(&self, window: &Window) -> Spike {
        let from = window.start_ns.saturating_sub(BEFORE);
        let mut seen = Seen { sets: self.sets.clone(), ..Seen::default() };
        for (cpu, track) in self.tracks.iter().enumerate() {
            let own = cpu == window.cpu as usize;
            if own || !track.whole {
                seen.events.extend(track.between(from, window.end_ns + AFTER));
            }
            if own && track.holes.iter().any(|&(a, b)| a < window.end_ns && window.start_ns < b) {
                seen.incomplete = Some(format!("events of CPU {cpu} were overwritten"));
            }
        }
        seen.events.sort_by_key(|event| event.ts);
        let tid = window.thread.tid;
        let overlaps = |wait: &&Wait| {
            wait.tid == tid && wait.out_ts < window.end_ns && window.start_ns < wait.in_ts
        };
        let stops = |pause: &&Pause| {
            pause.tgid == window.thread.pid
                && pause.start < window.end_ns
                && window.start_ns < pause.end
        };
        seen.pauses = self.pauses.iter().filter(stops).copied().collect();
        seen.waits = self.waits.iter().filter(overlaps).cloned().collect();
        attribute(window, &seen, &self.kernel)
    }
}

impl Track {
    fn pull(&mut self, timeline: &Timeline, cpu: u32) {
        let batch = timeline.events_after(cpu, self.last);
        self.last = batch.last;
        if batch.lost > 0 {
            let from = self.events.back().map_or(0, |event| event.ts);
            let to = batch.events.first().map_or(u64::MAX, |event| event.ts);
            self.holes.push((from, to));
        }
        let reaches_out = |event: &Event| matches!(event.what, What::IpiSent { .. });
        let whole = self.whole;
        self.events.extend(batch.events.into_iter().filter(|e| whole || reaches_out(e)));
        while self.events.len() > ROOM {
            let gone = self.events.pop_front().map_or(0, |event| event.ts);
            match self.holes.first_mut() {
                Some(first) if first.0 == 0 => first.1 = first.1.max(gone),
                _ => self.holes.insert(0, (0, gone)),
            }
        }
    }

    /// Events between two moments. They are in the order of writing, which is nearly that of time.
    fn between(&self, from: u64, to: u64) -> impl Iterator<Item = Event> {
        let begin = self.events.partition_point(|event| event.ts < from);
        self.events.iter().skip(begin).take_while(move |event| event.ts <= to).copied()
    }
}
