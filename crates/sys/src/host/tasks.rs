//! Every thread on the host, in one question.
//!
//! A question per thread and file would make a snapshot of thousands of entries; and affinity by
//! system call costs a twentieth of `/proc/T/status`, which is what keeps an audit of a busy host
//! below 100 ms.

use std::path::Path;

use quietcore_measure::CpuSet;
use serde::{Deserialize, Serialize};

use super::{Host, HostError, Trouble, live};

/// `PF_KTHREAD` of the kernel's `linux/sched.h`.
const PF_KTHREAD: u64 = 0x0020_0000;
/// `PF_NO_SETAFFINITY`: userspace may not move the thread.
const PF_NO_SETAFFINITY: u64 = 0x0400_0000;

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Name of the thread (`comm`), at most 15 bytes.
    pub name: String,
    /// `R` runnable, `S` sleeping, `D` uninterruptible, …
    pub state: char,
    /// CPU it last ran on.
    pub cpu: usize,
    /// 0 OTHER, 1 FIFO, 2 RR, 3 BATCH, 5 IDLE, 6 DEADLINE.
    pub policy: u32,
    /// Real-time priority, 1 to 99; 0 for the others.
    pub rt_priority: u32,
    /// Time on a CPU in clock ticks of 1/100 s, user and system together.
    pub ticks: u64,
    /// When it began, in clock ticks since boot: tells it from a later one of the same number; 0
    /// in recordings made before this was kept.
    #[serde(default)]
    pub started: u64,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
    /// Whether userspace may not change its CPUs.
    pub bound: bool,
    /// The CPUs it may run on.
    pub affinity: CpuSet,
}

impl Task {
    /// Whether a real-time class runs it: it preempts all others and is throttled.
    pub fn is_realtime(&self) -> bool {
        matches!(self.policy, 1 | 2 | 6)
    }

    /// `name/tid`, as reports name threads.
    pub fn label(&self) -> String {
        format!("{}/{}", self.name, self.tid)
    }
}

impl Host {
    /// Every thread of every process; threads that end while being read are left out.
    pub fn tasks(&self) -> Result<Vec<Task>, HostError> {
        let live = self.is_live();
        self.answer("tasks".to_owned(), |root| {
            let mut tasks = Vec::new();
            for pid in live::list(root, "/proc")?.iter().filter_map(|name| name.parse().ok()) {
                threads_of(root, live, pid, &mut tasks);
            }
            Ok(tasks)
        })
    }

    /// The threads of one process.
    pub fn threads(&self, pid: u32) -> Result<Vec<Task>, HostError> {
        let live = self.is_live();
        self.answer(format!("threads {pid}"), |root| {
            let mut tasks = Vec::new();
            threads_of(root, live, pid, &mut tasks);
            match tasks.is_empty() {
                true => Err(Trouble::Missing),
                false => Ok(tasks),
            }
        })
    }
}

fn threads_of(root: &Path, live: bool, pid: u32, tasks: &mut Vec<Task>) {
    let Ok(tids) = live::list(root, &format!("/proc/{pid}/task")) else { return };
    for tid in tids {
        let Ok(stat) = live::read(root, &format!("/proc/{pid}/task/{tid}/stat")) else { continue };
        let Some(mut task) = parse_stat(pid, &stat) else { continue };
        let affinity = match live {
            true => i32::try_from(task.tid).ok().and_then(|tid| crate::sched::affinity(tid).ok()),
            false => affinity_in_status(root, pid, task.tid),
        };
        let Some(affinity) = affinity else { continue };
        task.affinity = affinity;
        tasks.push(task);
    }
}

fn affinity_in_status(root: &Path, pid: u32, tid: u32) -> Option<CpuSet> {
    let status = live::read(root, &format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuSet::parse_list(list).ok()
}

/// `/proc/T/stat` (proc(5)): the name in parentheses may itself hold parentheses and spaces.
fn parse_stat(pid: u32, stat: &str) -> Option<Task> {
    let (tid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Field 3 of proc(5), the state, is the first after the name.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |n: usize| field(n)?.parse::<u64>().ok();
    let flags = number(9)?;
    Some(Task {
        pid,
        tid: tid.trim().parse().ok()?,
        name: name.to_owned(),
        state: field(3)?.chars().next()?,
        cpu: usize::try_from(number(39)?).ok()?,
        policy: u32::try_from(number(41)?).ok()?,
        rt_priority: u32::try_from(number(40)?).ok()?,
        ticks: number(14)?.saturating_add(number(15)?),
        started: number(22)?,
        kernel: flags & PF_KTHREAD != 0,
        bound: flags & PF_NO_SETAFFINITY != 0,
        affinity: CpuSet::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (a) b (c) R 2 0 0 0 -1 69238880 0 0 0 0 7 5 0 0 20 0 1 0 9 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 3 50 1 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let task = parse_stat(42, STAT).unwrap();
        assert_eq!((task.name.as_str(), task.state, task.cpu), ("a) b (c", 'R', 3));
        assert_eq!((task.policy, task.rt_priority, task.ticks), (1, 50, 12));
        assert_eq!(task.started, 9);
        assert!(task.kernel && task.bound && task.is_realtime());
        for garbage in ["", "x", "1 (a", "1 (a) R 1 2", &STAT.replace(" 17 3 ", " 17 x ")] {
            assert!(parse_stat(1, garbage).is_none(), "{garbage}");
        }
    }

    #[test]
    fn this_thread_is_among_the_tasks_of_this_host() {
        let tasks = Host::live().tasks().unwrap();
        let own = tasks.iter().find(|t| t.pid == std::process::id()).unwrap();
        assert!(!own.kernel && !own.affinity.is_empty());
        assert_eq!(Host::live().threads(u32::MAX).unwrap_err().trouble, Trouble::Missing);
    }
}
