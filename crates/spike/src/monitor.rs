//! Spikes as they happen: the recorder's waits and events, explained.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use quietcore_bpf::{
    BpfError, Counts, Event, Health, Pause, Runtime, Set, Settings, Timeline, Wait, What,
};
use quietcore_measure::{Kind, Nanos, Spike, Thread};
use quietcore_sys::Host;

use crate::attribute::{Seen, Window, attribute, began, sleeps_in};
use crate::cpu_log::CpuLog;
use crate::kallsyms::Kallsyms;
use crate::syscalls;

/// How long before a window its events are looked at, and how long after: what an interrupt was for
/// comes before it ends, and who asked for it before it begins. In nanoseconds.
const AROUND: u64 = 1_000_000;

/// Stops of runtimes that are remembered.
const PAUSES: usize = 256;

/// How often what was recorded is fetched. Nothing wakes whoever waits for spikes in between: waking
/// it at each would disturb what is watched.
const DRAIN: Duration = Duration::from_millis(20);
/// And how often at most.
const SHORTEST_DRAIN: Duration = Duration::from_millis(1);

/// Sleeps that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asleep {
    /// In what: a system call, mostly.
    pub call: String,
    /// How many; of those that only their stacks show, how many over the threshold.
    pub count: u64,
    /// How long they took until somebody began to end them, summed, in nanoseconds.
    pub ns: u64,
}

/// A recorder with the knowledge to explain what it sees.
#[derive(Debug)]
pub struct Monitor {
    timeline: Timeline,
    kernel: Kallsyms,
    sets: Vec<Set>,
    pauses: VecDeque<Pause>,
    /// From where on a wait is a spike, if sleeps that were asked for are none.
    forgiving: Option<Nanos>,
    /// The sleeps that only their stacks showed, and how many of them ended in time.
    asleep: BTreeMap<String, (u64, u64)>,
    in_time: u64,
    fetched: Fetched,
}

/// A stretch of a thread's life, and where what explains it is to be found.
struct Question {
    window: Window,
    waits: Vec<Wait>,
    /// From when on events matter.
    from: u64,
    /// The thread may have been on any CPU meanwhile.
    roams: bool,
}

/// How far the recorder had come when it was last asked.
#[derive(Debug)]
struct Fetched {
    at: Instant,
    heads: Vec<u64>,
    slots: u64,
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
        let heads = (0..timeline.cpus()).map(|cpu| timeline.recorded(cpu)).collect();
        Ok(Self {
            timeline,
            kernel,
            sets,
            pauses: VecDeque::new(),
            forgiving: (!settings.voluntary.is_empty()).then_some(settings.threshold),
            asleep: BTreeMap::new(),
            in_time: 0,
            fetched: Fetched { at: Instant::now(), heads, slots: settings.slots.into() },
        })
    }

    /// How long it may be left alone before what explains the next spikes is overwritten: as it was
    /// since the last call. Twenty milliseconds, less where CPUs do nothing but switch.
    pub fn patience(&mut self) -> Duration {
        let (elapsed, last) = (self.fetched.at.elapsed(), &mut self.fetched.heads);
        let heads: Vec<_> =
            (0..self.timeline.cpus()).map(|cpu| self.timeline.recorded(cpu)).collect();
        let recorded = heads.iter().zip(last.iter()).map(|(now, then)| now - then).max();
        (*last, self.fetched.at) = (heads, Instant::now());
        patience(self.fetched.slots, recorded.unwrap_or(0), elapsed)
    }

    /// The spikes since the last call, explained, in the order in which they ended.
    ///
    /// # Errors
    /// [`BpfError`] where the recorder cannot be read.
    pub fn spikes(&mut self) -> Result<Vec<Spike>, BpfError> {
        let questions: Vec<_> = self.waits()?.into_iter().map(Question::of).collect();
        let logs = self.logs(&questions);
        Ok(questions.into_iter().map(|question| self.answer(question, &logs)).collect())
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
        Ok(match self.forgiving {
            Some(threshold) => {
                waits.into_iter().filter_map(|wait| self.late(wait, threshold)).collect()
            }
            None => waits,
        })
    }

    /// Of a sleep that its stack shows to have been asked for, what came after somebody ended it.
    fn late(&mut self, mut wait: Wait, threshold: Nanos) -> Option<Wait> {
        let (Some(waking), Some(call)) = (wait.waking_ts, sleeps_in(&wait, &self.kernel)) else {
            return Some(wait);
        };
        let (count, ns) = self.asleep.entry(call).or_default();
        (*count, *ns) = (*count + 1, *ns + waking.saturating_sub(wait.out_ts));
        (wait.out_ts, wait.flags.voluntary) = (waking, true);
        let late = wait.in_ts.saturating_sub(waking) >= threshold.0;
        self.in_time += u64::from(!late);
        late.then_some(wait)
    }

    /// The sleeps that were asked for and are no spikes, the longest first.
    ///
    /// # Errors
    /// [`BpfError`] where the counters cannot be read.
    pub fn sleeps(&self) -> Result<Vec<Asleep>, BpfError> {
        let mut all = self.asleep.clone();
        for asked in self.timeline.sleeps()? {
            let call = match syscalls::sleeps_for(asked.syscall) {
                Some((Kind::Lock, name)) => format!("{name}, timed out"),
                _ => syscalls::name(asked.syscall),
            };
            let (count, ns) = all.entry(call).or_default();
            (*count, *ns) = (*count + asked.count, *ns + asked.ns);
        }
        let each = all.into_iter().map(|(call, (count, ns))| Asleep { call, count, ns });
        let mut all: Vec<_> = each.collect();
        all.sort_by_key(|asked| std::cmp::Reverse(asked.ns));
        Ok(all)
    }

    /// Explains any stretch of a thread's life that has just ended.
    pub fn window(&self, window: &Window, waits: Vec<Wait>) -> Spike {
        let (window, from) = (window.clone(), window.start_ns.saturating_sub(AROUND));
        let question = Question { roams: !window.spins, window, waits, from };
        let logs = self.logs(std::slice::from_ref(&question));
        self.answer(question, &logs)
    }

    /// What CPUs recorded, each read once for all questions.
    fn logs(&self, questions: &[Question]) -> Vec<Option<CpuLog>> {
        let read = |cpu| {
            let asking = || questions.iter().filter(|question| self.needs(question, cpu));
            let from = asking().map(|question| question.from).min()?;
            let until = asking().map(Question::until).max()?;
            let own = asking().any(|question| question.is_own(cpu));
            let of_others = |event: &Event| {
                matches!(event.what, What::Switch { .. }) || event.what.concerns_others()
            };
            let batch = self.timeline.events(cpu, from, until);
            Some(CpuLog::of(batch, |event| own || of_others(event)))
        };
        (0..self.timeline.cpus()).map(read).collect()
    }

    /// Whether what a CPU recorded has to be looked at.
    fn needs(&self, question: &Question, cpu: u32) -> bool {
        question.roams || question.is_own(cpu) || self.sets.contains(&Set::Ipi)
    }

    fn answer(&self, question: Question, logs: &[Option<CpuLog>]) -> Spike {
        let window = &question.window;
        let mut seen = Seen { sets: self.sets.clone(), ..Seen::default() };
        for (cpu, log) in (0..).zip(logs) {
            let (own, Some(log)) = (question.is_own(cpu), log) else { continue };
            let events = log.between(question.from, question.until());
            seen.events.extend(events.filter(|event| question.concerns(event, own)));
            seen.hears_of_steal |= own && self.timeline.hears_of_steal(cpu);
            if own && !log.is_whole(question.from, window.end_ns) {
                seen.incomplete = Some(format!("events of CPU {cpu} were overwritten"));
            }
        }
        let during = |pause: &&Pause| pause.end > window.start_ns && pause.start < window.end_ns;
        let ours = |pause: &&Pause| pause.tgid == window.thread.pid && during(pause);
        seen.pauses = self.pauses.iter().filter(ours).copied().collect();
        seen.waits = question.waits;
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
        let mut counts = self.timeline.counts()?;
        counts.voluntary_sleeps += self.asleep.values().map(|(count, _)| count).sum::<u64>();
        // A wait may be here before it is counted.
        counts.sent = counts.sent.saturating_sub(self.in_time);
        Ok(counts)
    }

    /// Which programs work.
    pub fn health(&self) -> &[Health] {
        self.timeline.health()
    }
}

impl Question {
    /// What one wait was made of.
    fn of(wait: Wait) -> Self {
        let window = Window {
            thread: Thread { tid: wait.tid, pid: wait.tgid, comm: wait.comm.to_string() },
            start_ns: wait.out_ts,
            end_ns: wait.in_ts,
            cpu: wait.in_cpu,
            // Whatever the thread was doing, in this time it did not get to it.
            spins: wait.flags.stolen,
            gaps: None,
        };
        // What CPUs did while it was blocked explains nothing, and may be long overwritten.
        let asleep = !wait.flags.preempted && !wait.flags.no_wake && !wait.flags.stolen;
        let from = wait.waking_ts.or(wait.wakeup_ts).filter(|_| asleep).unwrap_or(wait.out_ts);
        let waits = if wait.flags.stolen { Vec::new() } else { vec![wait] };
        Self { window, waits, from: from.saturating_sub(AROUND), roams: false }
    }

    /// Until when events matter.
    fn until(&self) -> u64 {
        self.window.end_ns.saturating_add(AROUND)
    }

    /// Whether the thread was on a CPU, or was to come to it. Where it is throttled, the quota may come
    /// back anywhere.
    fn is_own(&self, cpu: u32) -> bool {
        let concerns = |wait: &Wait| {
            wait.flags.throttled || [wait.out_cpu, wait.wakeup_cpu, wait.in_cpu].contains(&cpu)
        };
        cpu == self.window.cpu || self.waits.iter().any(concerns)
    }

    /// Whether an event may matter. Of CPUs that are not its own only the thread itself counts, and
    /// what was sent to where it is; of the time after a wait, what had begun within it.
    fn concerns(&self, event: &Event, own: bool) -> bool {
        let thread = self.window.thread.tid;
        match event.what {
            What::Reclaim { tid, since }
            | What::Compaction { tid, since }
            | What::MmapLock { tid, since } => own && tid == thread && since < self.window.end_ns,
            _ if !self.waits.is_empty() && began(event) > self.window.end_ns => false,
            What::Switch { from, to, .. } => own || from == thread || to == thread,
            what if what.concerns_others() => true,
            _ => own,
        }
    }
}

/// Back before a quarter of the ring is new, if it goes on as it did.
fn patience(slots: u64, recorded: u64, elapsed: Duration) -> Duration {
    let quarter = elapsed.as_secs_f64() * (slots / 4) as f64 / recorded.max(1) as f64;
    Duration::try_from_secs_f64(quarter).unwrap_or(DRAIN).clamp(SHORTEST_DRAIN, DRAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_fills_faster_is_looked_at_more_often() {
        let after = |recorded| patience(16_384, recorded, Duration::from_millis(20));
        assert_eq!(after(0), DRAIN);
        assert_eq!(after(4_096), DRAIN);
        assert_eq!(after(8_192), Duration::from_millis(10));
        assert_eq!(after(1 << 40), SHORTEST_DRAIN);
        assert_eq!(patience(16_384, 10, Duration::ZERO), SHORTEST_DRAIN);
    }

    #[test]
    fn of_the_time_around_a_wait_counts_what_can_explain_it() {
        let window = Window {
            thread: Thread { tid: 7, pid: 7, comm: String::new() },
            start_ns: 100,
            end_ns: 200,
            ..Window::default()
        };
        let waits = vec![Wait::default()];
        let question = Question { window, waits, from: 50, roams: false };
        let counts = |ts, what, own| question.concerns(&Event { ts, cpu: 0, what }, own);
        let timer = What::HrTimer { function: 1, due: None };
        assert!(counts(60, timer, true), "it expired, and then it woke the thread");
        let softirq = |since| What::Softirq { vector: 3, since };
        assert!(counts(300, softirq(150), true), "it goes on after the wait");
        assert!(!counts(300, softirq(250), true) && !counts(150, softirq(140), false));
        let reclaim = |tid, since| What::Reclaim { tid, since };
        assert!(counts(300, reclaim(7, 90), true) && !counts(300, reclaim(8, 90), true));
        assert!(!counts(300, reclaim(7, 250), true));
    }
}
