//! Events that are kept longer than the recorder keeps them.
//!
//! The recorder overwrites its oldest. Who learns of a gap only afterwards, as from a spinning
//! thread, pulls the events as they come and asks later.

use std::collections::VecDeque;

use quietcore_bpf::{BpfError, Pause, Set, Timeline, Wait};
use quietcore_measure::{CpuSet, Spike};
use quietcore_sys::Host;

use crate::attribute::{Seen, Window, attribute};
use crate::cpu_log::CpuLog;
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

/// What of one CPU is kept.
#[derive(Debug)]
struct Track {
    /// Whether all of it is kept, or only what it did to other CPUs.
    whole: bool,
    log: CpuLog,
    /// The last event that was read.
    last: u64,
    hears_of_steal: bool,
}

impl Tape {
    /// Begins now. Of CPUs not in `whole` only what they did to others is kept.
    pub fn new(timeline: &Timeline, whole: &CpuSet, host: &Host) -> Self {
        let kernel = host.read("/proc/kallsyms").map(|text| Kallsyms::parse(&text));
        let track = |cpu: u32| Track {
            whole: whole.contains(cpu as usize),
            log: CpuLog::default(),
            last: timeline.recorded(cpu),
            hears_of_steal: false,
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
        self.tracks.iter_mut().for_each(|track| track.log.forget(old));
        self.waits.retain(|wait| wait.in_ts >= old);
        self.pauses.retain(|pause| pause.end >= old);
    }

    /// Explains a window with what was kept.
    pub fn explain(&self, window: &Window) -> Spike {
        let from = window.start_ns.saturating_sub(BEFORE);
        let mut seen = Seen { sets: self.sets.clone(), ..Seen::default() };
        for (cpu, track) in self.tracks.iter().enumerate() {
            let own = cpu == window.cpu as usize;
            let events = track.log.between(from, window.end_ns + AFTER);
            seen.events.extend(events.filter(|event| own || event.what.concerns_others()));
            seen.hears_of_steal |= own && track.hears_of_steal;
            if own && !track.log.is_whole(window.start_ns, window.end_ns) {
                seen.incomplete = Some(format!("events of CPU {cpu} were overwritten"));
            }
        }
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
        self.hears_of_steal = timeline.hears_of_steal(cpu);
        let whole = self.whole;
        self.log.append(batch, |event| whole || event.what.concerns_others());
        self.log.shorten(ROOM);
    }
}
