//! Every thread of the host.

use quietcore_measure::{CpuSet, Reading};
use quietcore_sys::host::{Task, reading};

use crate::Facts;

/// The threads of a host.
#[derive(Clone, Debug)]
pub struct Tasks {
    /// Every thread, or why they could not be read.
    pub all: Reading<Vec<Task>>,
}

impl Tasks {
    pub(crate) fn read(facts: &Facts) -> Self {
        Self { all: reading(facts.host().tasks()) }
    }

    /// The threads, none where they could not be read: for checks that only add to a verdict.
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.all.value().into_iter().flatten()
    }

    /// Threads that may run on any of these CPUs.
    pub fn allowed_on<'a>(&'a self, cpus: &'a CpuSet) -> impl Iterator<Item = &'a Task> {
        self.iter().filter(|task| task.affinity.intersects(cpus))
    }

    /// Threads of programs that may run on no CPU but these.
    pub fn confined_to<'a>(&'a self, cpus: &'a CpuSet) -> impl Iterator<Item = &'a Task> {
        let within = |task: &&Task| !task.affinity.is_empty() && task.affinity.is_subset(cpus);
        self.iter().filter(|task| !task.kernel).filter(within)
    }

    /// A running process by the name of its main thread (the kernel keeps 15 bytes of it).
    pub fn named(&self, name: &str) -> Option<&Task> {
        let kept = &name[..name.len().min(15)];
        self.iter().find(|task| task.pid == task.tid && !task.kernel && task.name == kept)
    }
}
