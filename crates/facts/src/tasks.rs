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

    /// Whether the list is that of the whole host: a container, and hidepid, show programs only, so
    /// that what is not in the list may run all the same.
    pub fn complete(&self) -> bool {
        self.iter().any(|task| task.kernel)
    }

    /// Why the list proves nothing by what is not in it.
    pub fn why_incomplete(&self) -> String {
        match self.all.value() {
            None => self.all.why().to_owned(),
            Some(_) => "no kernel thread is visible: a container, or hidepid".to_owned(),
        }
    }

    /// Whether process 1 is that of a container, whose systemd knows nothing of the host's units.
    pub fn contained(&self) -> bool {
        !self.complete() && self.iter().any(|task| task.tid == 1)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(shown: &[(u32, bool)]) -> Tasks {
        let task = |&(tid, kernel): &(u32, bool)| Task { tid, kernel, ..Task::default() };
        Tasks { all: Reading::Measured(shown.iter().map(task).collect()) }
    }

    #[test]
    fn a_list_without_kernel_threads_is_not_the_whole_host() {
        assert!(tasks(&[(1, false), (2, true)]).complete());
        let container = tasks(&[(1, false), (7, false)]);
        assert!(!container.complete() && container.contained());
        let hidden = tasks(&[(4000, false)]);
        assert!(!hidden.complete() && !hidden.contained());
        let unread = Tasks { all: Reading::Failed("denied".to_owned()) };
        assert!(!unread.complete() && unread.why_incomplete() == "denied");
    }
}
