//! Spikes as they happen: the recorder's waits and events, explained.

use std::collections::VecDeque;

use quietcore_bpf::{
    BpfError, Counts, Event, Health, Pause, Runtime, Set, Settings, Timeline, Wait, What,
};
use quietcore_measure::{Spike, Thread};
use quietcore_sys::Host;

use crate::attribute::{Seen, Window, attribute};
use crate::kallsyms::Kallsyms;

/// How long before a window its events are looked at, and how long after: what an interrupt was for
/// comes before it ends, and who asked for it before it begins. In nanoseconds.
const AROUND: u64 = 1_000_000;

/// Stops of runtimes that are remembered.
const PAUSES: usize = 256;

/// A recorder with the knowledge to explain what it sees.
#[derive(Debug)]
pub struct Monitor {
    timeline: Timeline,
    kernel: Kallsyms,
    sets: Vec<Set>,
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
        let sets = timeline.sets();
        let kernel = kernel.unwrap_or_default();
        Ok(Self { timeline, kernel, sets, pauses: VecDeque::new() })
    }

    /// The spikes since the last call, explained, in the order in which they ended.
    ///
    /// # Errors
    /// [`BpfError`] where the recorder cannot be read.
    pub fn spikes(&mut self) -> Result<Vec<Spike>, BpfError> {
        let waits = self.waits()?;
        Ok(waits.into_iter().map(|wait| self.explain(wait)).collect())
    }

    /// The waits over the threshold since the last call, unexplained.
    ///
    /// # Errors
    /// [`BpfError`] where the recorder cannot be read.
    pub fn waits(&mut self) -> Result<Vec<Wait>, BpfError> {
        let waits = self.timeline.waits()?;
        // What had not ended comes again.
        self.pauses.retain(|pause| pause.end != u64::MAX);
        self.pauses.extend(self.timeline.pauses());
        let old = self.pauses.len().saturating_sub(PAUSES);
        self.pauses.drain(..old);
        Ok(waits)
    }

    /// What one wait was made of.
    pub fn explain(&self, wait: Wait) -> Spike {
        let window = Window {
            thread: Thread { tid: wait.tid, pid: wait.tgid, comm: wait.comm.to_string() },
            start_ns: wait.out_ts,
            end_ns: wait.in_ts,
            cpu: wait.in_cpu,
            // Whatever the thread was doing, in this time it did not get to it.
            spins: wait.flags.stolen,
        };
        if wait.flags.stolen {
            return self.window(&window, Vec::new());
        }
        // What CPUs did while it was blocked explains nothing, and may be long overwritten.
        let asleep = !wait.flags.preempted && !wait.flags.no_wake;
        let from = wait.waking_ts.or(wait.wakeup_ts).filter(|_| asleep).unwrap_or(wait.out_ts);
        self.seen_from(from, false, &window, vec![wait])
    }

    /// Explains any stretch of a thread's life that has just ended.
    pub fn window(&self, window: &Window, waits: Vec<Wait>) -> Spike {
        self.seen_from(window.start_ns, !window.spins, window, waits)
    }

    /// `roams`: the thread may have been on any CPU meanwhile.
    fn seen_from(&self, from: u64, roams: bool, window: &Window, waits: Vec<Wait>) -> Spike {
        let own = |cpu| cpu == window.cpu || waits.iter().any(|wait| concerns(wait, cpu));
        let (from, until) = (from.saturating_sub(AROUND), window.end_ns.saturating_add(AROUND));
        let mut seen = Seen { sets: self.sets.clone(), ..Seen::default() };
        for cpu in 0..self.timeline.cpus() {
            let own = own(cpu);
            if !own && !roams && !self.sets.contains(&Set::Ipi) {
                continue;
            }
            let (events, whole) = self.timeline.events(cpu, from, until);
            // Elsewhere only the thread itself counts, and what was sent to where it is.
            let tid = window.thread.tid;
            let counts = |event: &Event| match event.what {
                What::Switch { from, to, .. } => own || from == tid || to == tid,
                What::IpiSent { .. } => true,
                _ => own,
            };
            seen.events.extend(events.into_iter().filter(counts));
            if own && !whole {
                seen.incomplete = Some(format!("events of CPU {cpu} were overwritten"));
            }
        }
        let during = |pause: &&Pause| pause.end > window.start_ns && pause.start < window.end_ns;
        let ours = |pause: &&Pause| pause.tgid == window.thread.pid && during(pause);
        seen.pauses = self.pauses.iter().filter(ours).copied().collect();
        seen.waits = waits;
        attribute(window, &seen, &self.kernel)
    }

    /// Watches the runtimes of a process that can stop all of it, and says which there are.
    ///
    /// # Errors
    /// As for [`Timeline::watch_pauses`].
    pub fn watch_pauses(&mut self, pid: u32) -> Result<Vec<Runtime>, BpfError> {
        self.timeline.watch_pauses(pid)
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

/// Whether what a CPU did matters for a wait. Of one that is throttled, the quota may come back
/// anywhere.
fn concerns(wait: &Wait, cpu: u32) -> bool {
    wait.flags.throttled || [wait.out_cpu, wait.wakeup_cpu, wait.in_cpu].contains(&cpu)
}
