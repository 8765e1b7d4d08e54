//! Who is watched: `include/watch.h`.

use libbpf_rs::{MapCore, MapFlags};
use quietcore_measure::CpuSet;

use crate::BpfError;

/// Who is watched. Never quietcore itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Everybody.
    All,
    /// One thread.
    Thread(u32),
    /// All threads of one process.
    Process(u32),
    /// Threads, or all threads of processes, by number.
    Tasks(Vec<u32>),
    /// Threads by number; of a process's first thread only that one.
    Threads(Vec<u32>),
    /// Whatever runs on these CPUs.
    Cpus(CpuSet),
}

impl Watch {
    /// The constant `only_tid`.
    pub(crate) fn only_thread(&self) -> u32 {
        if let Self::Thread(tid) = self { *tid } else { 0 }
    }

    /// The constant `only_tgid`.
    pub(crate) fn only_process(&self) -> u32 {
        if let Self::Process(tgid) = self { *tgid } else { 0 }
    }

    /// The constant `by_list`.
    pub(crate) fn is_by_task(&self) -> bool {
        matches!(self, Self::Tasks(_) | Self::Threads(_))
    }

    /// The constant `by_cpu`.
    pub(crate) fn is_by_cpu(&self) -> bool {
        matches!(self, Self::Cpus(_))
    }

    /// Tells the programs what a constant cannot hold.
    pub(crate) fn tell(&self, watched: &impl MapCore) -> Result<(), BpfError> {
        const THREAD: u8 = 1;
        const PROCESS: u8 = 2;
        let (keys, value): (Vec<u32>, u8) = match self {
            Self::All | Self::Thread(_) | Self::Process(_) => (Vec::new(), 0),
            Self::Tasks(tasks) => (tasks.clone(), THREAD | PROCESS),
            Self::Threads(threads) => (threads.clone(), THREAD),
            Self::Cpus(cpus) => {
                (cpus.iter().filter_map(|cpu| u32::try_from(cpu).ok()).collect(), 0)
            }
        };
        let doing = "telling the programs whom to watch";
        keys.iter().try_for_each(|key| {
            watched
                .update(&key.to_ne_bytes(), &[value], MapFlags::ANY)
                .map_err(|error| BpfError::Libbpf { doing, error })
        })
    }
}
