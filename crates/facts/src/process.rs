//! The process under audit: its threads, its memory, its timers and what limits it.

mod java;

use std::collections::BTreeMap;

use quietcore_measure::{Nanos, Reading};
use quietcore_sys::host::{CpuLimit, Runtime, Task, ThreadCounters, reading};

use crate::Facts;
use crate::counters::Probe;

pub use java::{Collector, Flags, Java};

/// The process that [`Facts::examining`] named.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its threads with what they have counted.
    pub threads: Reading<Vec<Thread>>,
    /// Its memory, as `/proc/P/status` sums it up.
    pub memory: Reading<Memory>,
    /// Its memory by kind in KiB, as `/proc/P/smaps_rollup` does.
    pub kinds: Reading<BTreeMap<String, u64>>,
    /// Its own memory per node in KiB; unsupported on a host with one node.
    pub nodes: Reading<BTreeMap<usize, u64>>,
    /// How much memory it may lock, in bytes; `None` is without limit.
    pub lockable: Reading<Option<u64>>,
    /// How much CPU time it may use before it is killed, in seconds; `None` is without limit.
    pub cpu_seconds: Reading<Option<u64>>,
    /// The clocks of its POSIX timers.
    pub timers: Reading<Vec<TimerClock>>,
    /// What limits the CPU time of its control group and of those above.
    pub cpu_limits: Reading<Vec<CpuLimit>>,
    /// Base names of the shared libraries it has mapped.
    pub libraries: Reading<Vec<String>>,
    /// What collects its garbage.
    pub runtime: Reading<Runtime>,
    /// The variables of its environment that checks read.
    pub environment: Reading<BTreeMap<String, String>>,
    /// Its virtual machine, if it is one of Java's.
    pub java: Option<Java>,
    /// Now, as time since boot: what a thread's start is measured against.
    pub now: Nanos,
}

/// A thread of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Where and how it is scheduled.
    pub task: Task,
    /// What it has counted; `None` where it ended between two readings.
    pub counters: Option<ThreadCounters>,
}

/// Sums of `/proc/P/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident, in KiB, without huge pages from the pool.
    pub resident_kib: u64,
    /// Locked, in KiB.
    pub locked_kib: u64,
    /// Swapped out, in KiB.
    pub swapped_kib: u64,
    /// Huge pages from the pool, in KiB.
    pub hugetlb_kib: u64,
    /// The process that traces this one (strace, a debugger); 0 if none does.
    pub tracer: u32,
}

/// What a POSIX timer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerClock {
    /// CPU time of a thread or process: the tick counts it.
    Cpu(i32),
    /// Time: a high-resolution timer, which needs no tick.
    Time(i32),
}

/// What of a process a probe reads twice.
#[derive(Clone, Debug, Default)]
pub struct ProcessCounters {
    /// Its threads' counters.
    pub threads: Vec<ThreadCounters>,
    /// Its groups' limits.
    pub cpu_limits: Vec<CpuLimit>,
}

impl Process {
    pub(crate) fn read(facts: &Facts) -> Self {
        let Some(pid) = facts.pid() else { return Self::unnamed() };
        let host = facts.host();
        let limits = reading(host.read(&format!("/proc/{pid}/limits")));
        let limit = |name: &str| {
            limits.as_ref().and_then(|text| match limit(text, name) {
                Some(limit) => Reading::Measured(limit),
                None => Reading::Failed(format!("/proc/{pid}/limits: expected a line `{name}`")),
            })
        };
        let status = format!("/proc/{pid}/status");
        let nodes = facts.cpus().topology.values().filter_map(|place| place.node);
        let nodes: std::collections::BTreeSet<usize> = nodes.collect();
        let runtime = reading(host.runtime(pid));
        Self {
            threads: threads(facts, pid),
            memory: reading(host.read(&status)).and_then(|text| match Memory::parse(&text) {
                Some(memory) => Reading::Measured(memory),
                None => Reading::Failed(format!("{status}: expected a line `VmRSS`")),
            }),
            kinds: reading(host.memory_kinds_kib(pid)),
            nodes: match nodes.len() {
                0 | 1 => Reading::Unsupported("all memory is on one node".to_owned()),
                _ => reading(host.node_memory_kib(pid)),
            },
            lockable: limit("Max locked memory"),
            cpu_seconds: limit("Max cpu time"),
            timers: reading(host.read(&format!("/proc/{pid}/timers"))).map(|text| timers(&text)),
            cpu_limits: reading(host.cpu_limits(pid)),
            libraries: reading(host.libraries(pid)),
            environment: reading(host.environment(pid)),
            java: (runtime.value() == Some(&Runtime::Jvm)).then(|| Java::read(host, pid)),
            runtime,
            now: host.uptime().unwrap_or_default(),
        }
    }

    fn unnamed() -> Self {
        fn none<T>() -> Reading<T> {
            Reading::Failed("no process was named: --pid P".to_owned())
        }
        Self {
            threads: none(),
            memory: none(),
            kinds: none(),
            nodes: none(),
            lockable: none(),
            cpu_seconds: none(),
            timers: none(),
            cpu_limits: none(),
            libraries: none(),
            runtime: none(),
            environment: none(),
            java: None,
            now: Nanos::default(),
        }
    }
}

fn threads(facts: &Facts, pid: u32) -> Reading<Vec<Thread>> {
    let counted = facts.host().thread_counters(pid).unwrap_or_default();
    let counters = |tid: u32| counted.iter().find(|c| c.tid == tid).copied();
    let thread = |task: Task| Thread { counters: counters(task.tid), task };
    reading(facts.host().threads(pid)).map(|tasks| tasks.into_iter().map(thread).collect())
}

impl Thread {
    /// How long it has lived; `None` where its start is unknown or not before now.
    pub fn lived(&self, now: Nanos) -> Option<Nanos> {
        let started = self.counters?.started_ticks.checked_mul(10_000_000)?;
        now.0.checked_sub(started).filter(|lived| *lived > 0).map(Nanos)
    }

    /// Share of one CPU that it used: between the readings of a probe, else since its start (as
    /// `ps` prints it). `None` where neither is known, or it is younger than a second.
    pub fn share(&self, now: Nanos, probe: Option<&Probe>) -> Option<f64> {
        if let Some(probe) = probe {
            return probe.share(self.task.tid);
        }
        let lived = self.lived(now).filter(|lived| lived.0 >= 1_000_000_000)?;
        Some(self.task.ticks as f64 * 1e7 / lived.0 as f64)
    }

    /// Share of one CPU that it used or waited for: what it wanted. As [`Thread::share`] where the
    /// kernel does not count waits.
    pub fn demand(&self, now: Nanos, probe: Option<&Probe>) -> Option<f64> {
        let share = self.share(now, probe)?;
        let waited = |c: &ThreadCounters| c.waited_ns.unwrap_or_default();
        let (waited, of) = match probe {
            Some(probe) => (probe.grew(self.task.tid, waited), Some(probe.took())),
            None => (self.counters.as_ref().map(waited), self.lived(now)),
        };
        let waiting = waited.zip(of).map_or(0.0, |(ns, of)| ns as f64 / of.0.max(1) as f64);
        // A wait that began before the first reading is counted whole when it ends.
        Some((share + waiting).min(1.0).max(share))
    }
}

impl Memory {
    /// Reads the text of `/proc/P/status`; `None` for what is not one, and for a thread of the
    /// kernel, which has no memory of its own.
    pub fn parse(status: &str) -> Option<Self> {
        let value = |name: &str| {
            let rest =
                status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            rest.trim().trim_end_matches(" kB").parse::<u64>().ok()
        };
        Some(Self {
            resident_kib: value("VmRSS")?,
            locked_kib: value("VmLck")?,
            swapped_kib: value("VmSwap").unwrap_or_default(),
            hugetlb_kib: value("HugetlbPages").unwrap_or_default(),
            tracer: value("TracerPid").and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default(),
        })
    }
}

/// The soft limit of a line of `/proc/P/limits`: `Max locked memory  8388608  8388608  bytes`.
fn limit(limits: &str, name: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// The `ClockID:` lines of `/proc/P/timers`.
///
/// The clocks of CPU time of the caller (2 and 3) are kept by the kernel as dynamic clocks, which
/// are negative: their lowest two bits say what is counted, and 3 says that it is a file's clock
/// (PTP hardware), no CPU's. (linux/posix-timers.h)
fn timers(text: &str) -> Vec<TimerClock> {
    let ids = text.lines().filter_map(|line| line.strip_prefix("ClockID:")?.trim().parse().ok());
    let clock = |id: i32| match id {
        2 | 3 => TimerClock::Cpu(id),
        ..0 if id & 3 != 3 => TimerClock::Cpu(id),
        _ => TimerClock::Time(id),
    };
    ids.map(clock).collect()
}

impl ProcessCounters {
    pub(crate) fn read(facts: &Facts) -> Self {
        let Some(pid) = facts.pid() else { return Self::default() };
        Self {
            threads: facts.host().thread_counters(pid).unwrap_or_default(),
            cpu_limits: facts.host().cpu_limits(pid).unwrap_or_default(),
        }
    }
}

impl Probe {
    /// Share of one CPU that a thread used between the readings; `None` if it was not there for
    /// both.
    pub fn share(&self, tid: u32) -> Option<f64> {
        let ticks = |tasks: &[Task]| tasks.iter().find(|task| task.tid == tid).map(|t| t.ticks);
        let used = ticks(&self.second.tasks)?.checked_sub(ticks(&self.first.tasks)?)?;
        let took = self.took().0;
        (took > 0).then(|| used as f64 * 1e7 / took as f64)
    }

    /// A thread's counters at both readings; `None` if it was not there for both.
    pub fn thread(&self, tid: u32) -> Option<[ThreadCounters; 2]> {
        let find = |process: &ProcessCounters| {
            process.threads.iter().find(|counters| counters.tid == tid).copied()
        };
        Some([find(&self.first.process)?, find(&self.second.process)?])
    }

    /// By how much a counter of a thread grew.
    pub fn grew(&self, tid: u32, counter: impl Fn(&ThreadCounters) -> u64) -> Option<u64> {
        let [first, second] = self.thread(tid)?;
        counter(&second).checked_sub(counter(&first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counters;

    #[test]
    fn memory_is_read_from_a_status() {
        let text = "Name:\tx\nTracerPid:\t9\nVmLck:\t  12 kB\nVmRSS:\t   3744 kB\nVmSwap:\t 4 kB\nHugetlbPages:\t 2048 kB\n";
        let memory = Memory::parse(text).unwrap();
        assert_eq!((memory.resident_kib, memory.locked_kib, memory.swapped_kib), (3744, 12, 4));
        assert_eq!((memory.hugetlb_kib, memory.tracer), (2048, 9));
        for garbage in ["", "VmRSS:", "VmRSS:\tx kB\nVmLck:\t0 kB", "VmRSSX:\t1 kB\nVmLck:\t0 kB"] {
            assert_eq!(Memory::parse(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn limits_are_read_by_their_names() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
            Max cpu time              unlimited            unlimited            seconds   \n\
            Max locked memory         8388608              unlimited            bytes     \n";
        assert_eq!(limit(text, "Max cpu time"), Some(None));
        assert_eq!(limit(text, "Max locked memory"), Some(Some(8_388_608)));
        assert_eq!(limit(text, "Max nonsense"), None);
        assert_eq!(limit("Max cpu time", "Max cpu time"), None);
    }

    #[test]
    fn clocks_of_cpu_time_are_told_from_clocks_of_time() {
        let text = "ID: 1\nsignal: 60/0\nnotify: signal/pid.2\nClockID: -6\nClockID: -2\nClockID: 2\n\
            ClockID: 1\nClockID: 7\nClockID: -5\nClockID: x\n";
        let cpu = timers(text).iter().filter(|t| matches!(t, TimerClock::Cpu(_))).count();
        assert_eq!((cpu, timers(text).len()), (3, 6));
        assert_eq!(timers(text)[5], TimerClock::Time(-5), "the clock of a file");
    }

    #[test]
    fn a_share_is_of_the_probe_or_else_of_the_life() {
        let thread = Thread {
            task: Task { tid: 5, ticks: 500, ..Task::default() },
            counters: Some(ThreadCounters { started_ticks: 1000, ..ThreadCounters::default() }),
        };
        let now = Nanos(20_000_000_000);
        assert_eq!(thread.share(now, None), Some(0.5));
        assert_eq!(thread.share(Nanos(10_500_000_000), None), None, "too young");
        assert_eq!(thread.share(Nanos(1), None), None, "started after now");
        let at = |at: u64, ticks: u64| Counters {
            at: Nanos(at),
            tasks: vec![Task { tid: 5, ticks, ..Task::default() }],
            ..Counters::default()
        };
        let probe = Probe { first: at(0, 500), second: at(2_000_000_000, 700) };
        assert_eq!(thread.share(now, Some(&probe)), Some(1.0));
        let backwards = Probe { first: at(0, 500), second: at(2_000_000_000, 400) };
        assert_eq!(thread.share(now, Some(&backwards)), None);
    }

    #[test]
    fn a_thread_wants_what_it_used_and_what_it_waited_for() {
        let counters = |waited| ThreadCounters {
            tid: 5,
            started_ticks: 1000,
            waited_ns: Some(waited),
            ..ThreadCounters::default()
        };
        let thread = Thread {
            task: Task { tid: 5, ticks: 100, ..Task::default() },
            counters: Some(counters(5_000_000_000)),
        };
        assert_eq!(thread.demand(Nanos(20_000_000_000), None), Some(0.6));
        let at = |at: u64, ticks: u64, waited: u64| Counters {
            at: Nanos(at),
            tasks: vec![Task { tid: 5, ticks, ..Task::default() }],
            process: ProcessCounters { threads: vec![counters(waited)], ..Default::default() },
            ..Counters::default()
        };
        let probe = |waited| Probe { first: at(0, 0, 0), second: at(2_000_000_000, 20, waited) };
        assert_eq!(thread.demand(Nanos(0), Some(&probe(1_000_000_000))), Some(0.6));
        assert_eq!(thread.demand(Nanos(0), Some(&probe(9_000_000_000))), Some(1.0));
    }
}
