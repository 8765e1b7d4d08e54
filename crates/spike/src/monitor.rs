//! Spikes as they happen: the recorder's waits and events, explained.

use std::collections::VecDeque;

use quietcore_bpf::{BpfError, Counts, Health, Pause, Runtime, Settings, Timeline, Wait};
use quietcore_measure::{Spike, Thread};
use quietcore_sys::Host;

use crate::attribute::{Seen, Window, attribute};
use crate::kallsyms::Kallsyms;

/// How long before a window its events are looked at: what runs when it begins came earlier.
const BEFORE: u64 = 10_000_000;

/// Stops of processes that are remembered.
const PAUSES: usize = 256;

/// A recorder with the knowledge to explain what it sees.
#[derive(Debug)]
pub struct Monitor {
    timeline: Timeline,
    kernel: Kallsyms,
    pauses: VecDeque<Pause>,
}

impl Monitor {
    /// Starts recording. Without the right to see the kernel's addresses, functions have no names.
    ///
    /// # Errors
    /// [`BpfError`] where nothing can be recorded.
    pub fn start(settings: &Settings, host: &Host) -> Result<Self, BpfError> {
        let kernel = host.read("/proc/kallsyms").map(|text| Kallsyms::parse(&text));
        let timeline = Timeline::start(settings)?;
        Ok(Self { timeline, kernel: kernel.unwrap_or_default(), pauses: VecDeque::new() })
    }

    /// Also watches the runtimes of a process that can stop all of it, a JVM's or Go's, and says
    /// which there are.
    ///
    /// # Errors
    /// [`BpfError::Program`] where the process cannot be read or the probes not be attached.
    pub fn watch_pauses(&mut self, pid: u32) -> Result<Vec<Runtime>, BpfError> {
        self.timeline.watch_pauses(pid)
    }

    /// The spikes since the last call, explained, in the order in which they ended.
    ///
    /// # Errors
    /// [`BpfError`] where the recorder cannot be read.
    pub fn spikes(&mut self) -> Result<Vec<Spike>, BpfError> {
        let waits = self.timeline.waits()?;
        self.pauses.extend(self.timeline.pauses());
        self.pauses.drain(..self.pauses.len().saturating_sub(PAUSES));
        Ok(waits.into_iter().map(|wait| self.explain(wait)).collect())
    }

    fn explain(&self, wait: Wait) -> Spike {
        let window = Window {
            thread: Thread { tid: wait.tid, pid: wait.tgid, comm: wait.comm.to_string() },
            start_ns: wait.out_ts,
            end_ns: wait.in_ts,
            cpu: wait.in_cpu,
            // Whatever the thread was doing, in this time it did not get to it.
            spins: wait.flags.stolen,
        };
        let waits = if wait.flags.stolen { Vec::new() } else { vec![wait] };
        self.window(&window, waits)
    }

    /// Explains any stretch of a thread's life that has just ended.
    pub fn window(&self, window: &Window, waits: Vec<Wait>) -> Spike {
        let mut cpus = vec![window.cpu];
        cpus.extend(waits.iter().flat_map(|wait| [wait.out_cpu, wait.waker_cpu]));
        cpus.sort_unstable();
        cpus.dedup();
        let of_process = |pause: &&Pause| pause.tgid == window.thread.pid;
        let pauses = self.pauses.iter().filter(of_process).copied().collect();
        let mut seen = Seen { waits, pauses, sets: self.timeline.sets(), ..Seen::default() };
        for cpu in cpus {
            let (events, whole) = self.timeline.events(cpu, window.start_ns.saturating_sub(BEFORE));
            seen.events.extend(events);
            if !whole {
                seen.incomplete = Some(format!("events of CPU {cpu} were overwritten"));
            }
        }
        seen.events.sort_by_key(|event| event.ts);
        attribute(window, &seen, &self.kernel)
    }

    /// The recorder below.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// [`BpfError`] where the counters cannot be read.
    pub fn counts(&self) -> Result<Counts, BpfError> {
        self.timeline.counts()
    }

    /// Which programs work.
    pub fn health(&self) -> &[Health] {
        self.timeline.health()
    }
}
