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
        matches!(self, Self::Tasks(_))
    }

    /// The constant `by_cpu`.
    pub(crate) fn is_by_cpu(&self) -> bool {
        matches!(self, Self::Cpus(_))
    }

    /// Tells the programs what a constant cannot hold.
    pub(crate) fn tell(&self, watched: &impl MapCore) -> Result<(), BpfError> {
        let keys: Vec<u32> = match self {
            Self::All | Self::Thread(_) | Self::Process(_) => Vec::new(),
            Self::Tasks(tasks) => tasks.clone(),
            Self::Cpus(cpus) => cpus.iter().filter_map(|cpu| u32::try_from(cpu).ok()).collect(),
        };
        let doing = "telling the programs whom to watch";
        keys.iter().try_for_each(|key| {
            watched
                .update(&key.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(|error| BpfError::Libbpf { doing, error })
        })
    }
}
