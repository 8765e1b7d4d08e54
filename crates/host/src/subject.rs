//! The process under audit as its checks see it: which of its threads matter.

use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_facts::process::{Collector, Flags, Java, Process, Thread};
use quietcore_measure::{CpuSet, Reading};
use quietcore_sys::host::Runtime;

use crate::{Scope, Verdict};

/// From this share of a CPU on that it wants, a thread counts as busy.
pub(crate) const BUSY: f64 = 0.5;

/// The process under audit.
pub(crate) struct Subject<'a> {
    pub facts: &'a Facts,
    pub scope: &'a Scope,
    pub process: &'a Process,
    pub threads: &'a [Thread],
}

impl<'a> Subject<'a> {
    /// The process, or the verdict of every check that needs its threads and has none.
    pub fn of(facts: &'a Facts, scope: &'a Scope) -> Result<Self, Verdict> {
        let process = facts.process();
        match process.threads.value() {
            Some(threads) => Ok(Self { facts, scope, process, threads }),
            None => Err(unread(&process.threads)),
        }
    }

    /// Share of one CPU that a thread used: while probed, else since its start.
    pub fn share(&self, thread: &Thread) -> Option<f64> {
        thread.share(self.process.now, self.facts.probe())
    }

    /// Share of one CPU that it wanted: used or waited for.
    pub fn demand(&self, thread: &Thread) -> Option<f64> {
        thread.demand(self.process.now, self.facts.probe())
    }

    /// Whether it wants a CPU most of the time; one that is kept from it is busy all the same.
    pub fn is_busy(&self, thread: &Thread) -> bool {
        self.demand(thread).is_some_and(|demand| demand >= BUSY)
    }

    /// Whether it may run on CPUs meant for latency only.
    pub fn is_placed(&self, thread: &Thread) -> bool {
        !thread.task.affinity.is_empty() && thread.task.affinity.is_subset(&self.scope.cpus)
    }

    /// The threads whose delay is the program's delay: real-time, busy, or placed on CPUs meant
    /// for latency.
    pub fn critical(&self) -> Vec<&'a Thread> {
        let matters = |t: &&Thread| t.task.is_realtime() || self.is_placed(t) || self.is_busy(t);
        self.threads.iter().filter(matters).collect()
    }

    /// The same, or the verdict where there are none.
    pub fn critical_or(&self) -> Result<Vec<&'a Thread>, Verdict> {
        let critical = self.critical();
        match critical.is_empty() {
            false => Ok(critical),
            true => Err(Verdict::not_applicable(
                "no thread of the process is real-time, busy, or kept on CPUs meant for latency",
            )),
        }
    }

    /// Threads that may run on one CPU only, by that CPU.
    pub fn pinned(&self) -> BTreeMap<usize, Vec<&'a Thread>> {
        let mut pinned: BTreeMap<usize, Vec<&Thread>> = BTreeMap::new();
        for thread in self.threads.iter().filter(|thread| thread.task.affinity.len() == 1) {
            if let Some(cpu) = thread.task.affinity.lowest() {
                pinned.entry(cpu).or_default().push(thread);
            }
        }
        pinned
    }

    /// A CPU meant for latency on which no thread of the process is pinned yet.
    pub fn spare_cpu(&self) -> Option<usize> {
        let taken: CpuSet = self.pinned().into_keys().collect();
        self.scope.cpus.minus(&taken).lowest().or_else(|| self.scope.cpus.lowest())
    }

    /// `FIFO 50, CPUs 4, 98 % of a CPU`.
    pub fn describe(&self, thread: &Thread) -> String {
        let task = &thread.task;
        let class = match task.policy {
            0 => "OTHER".to_owned(),
            1 => format!("FIFO {}", task.rt_priority),
            2 => format!("RR {}", task.rt_priority),
            3 => "BATCH".to_owned(),
            5 => "IDLE".to_owned(),
            6 => "DEADLINE".to_owned(),
            other => format!("class {other}"),
        };
        let share = self.share(thread).map(|share| format!(", {:.0} % of a CPU", share * 100.0));
        format!("{class}, CPUs {}, on CPU {}{}", task.affinity, task.cpu, share.unwrap_or_default())
    }

    /// Adds a line of evidence per thread.
    pub fn evidence(&self, verdict: Verdict, threads: &[&Thread]) -> Verdict {
        threads.iter().fold(verdict, |verdict, thread| {
            verdict.evidence(thread.task.label(), self.describe(thread))
        })
    }
}

/// `a/1, b/2 and 5 more`: names for a title.
pub(crate) fn names(threads: &[&Thread]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = threads.iter().take(SHOWN).map(|t| t.task.label()).collect();
    match threads.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What of a process could not be read is unknown, whatever the reason: a file that is not there
/// does not say that the process has nothing to hide.
pub(crate) fn unread<T>(reading: &Reading<T>) -> Verdict {
    Verdict::unknown(reading.why())
}

/// The Java virtual machine that the process is, or the verdict where it is none.
pub(crate) fn java(facts: &Facts) -> Result<&Java, Verdict> {
    let process = facts.process();
    match (&process.java, process.runtime.value()) {
        (Some(java), _) => Ok(java),
        (None, Some(_)) => Err(Verdict::not_applicable("the process is no Java virtual machine")),
        (None, None) => Err(unread(&process.runtime)),
    }
}

/// Its flags, or the verdict where they cannot be read.
pub(crate) fn java_flags(java: &Java) -> Result<&Flags, Verdict> {
    java.flags.value().ok_or_else(|| unread(&java.flags))
}

/// The flags of a virtual machine that G1 collects for, or the verdict where another does.
pub(crate) fn g1_flags(facts: &Facts) -> Result<&Flags, Verdict> {
    let java = java(facts)?;
    match java.collector() {
        Some(Collector::G1) => java_flags(java),
        Some(other) => {
            Err(Verdict::not_applicable(format!("the collector is {}, not G1", other.name())))
        }
        None => Err(Verdict::unknown("which collector runs is not known")),
    }
}

/// The verdict on a flag that was not seen, while some may be in a file.
pub(crate) fn maybe_elsewhere(flags: &Flags, name: &str) -> Verdict {
    Verdict::unknown(format!("{name} is not on the command line, but a file of options is"))
        .evidence(&flags.source, "@file, -XX:Flags= or -XX:VMOptionsFile=")
}

/// The environment of the Go program that the process is, or the verdict where it is none.
pub(crate) fn go_environment(facts: &Facts) -> Result<&BTreeMap<String, String>, Verdict> {
    let process = facts.process();
    match process.runtime.value() {
        Some(Runtime::Go) => {}
        Some(_) => return Err(Verdict::not_applicable("the process is no Go program")),
        None => return Err(unread(&process.runtime)),
    }
    process.environment.value().ok_or_else(|| unread(&process.environment))
}
