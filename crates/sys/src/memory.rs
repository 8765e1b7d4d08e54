//! Memory that is there before it is needed: locked, touched, and from the right node.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod locked_exec;

use std::io;

use quietcore_measure::CpuSet;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use locked_exec::{LockedExecError, NOT_LOCKED, exec_locked};

/// Why memory could not be locked or placed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// `mlockall` failed.
    #[error(
        "cannot lock this process's memory: {error} (RLIMIT_MEMLOCK is {limit}); raise it (`ulimit -l`, memlock in limits.conf, LimitMEMLOCK= of the unit) or grant CAP_IPC_LOCK"
    )]
    Lock {
        /// The limit in force, as text.
        limit: Limit,
        /// What the kernel said.
        error: io::Error,
    },
    /// A limit could not be read.
    #[error("cannot read RLIMIT_MEMLOCK: {0}")]
    ReadLimit(io::Error),
    /// A limit could not be raised.
    #[error(
        "cannot raise RLIMIT_MEMLOCK above its hard limit of {hard}: {error}; grant CAP_SYS_RESOURCE or raise it where the session or unit is set up"
    )]
    RaiseLimit {
        /// The hard limit in force.
        hard: Limit,
        /// What the kernel said.
        error: io::Error,
    },
    /// The memory policy could not be set.
    #[error(
        "cannot bind memory to NUMA nodes {nodes}: {error} (nodes with memory are listed in /sys/devices/system/node/has_memory)"
    )]
    Policy {
        /// The nodes asked for.
        nodes: CpuSet,
        /// What the kernel said.
        error: io::Error,
    },
}

/// A resource limit in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// So many bytes.
    Bytes(u64),
    /// None.
    Unlimited,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} KiB", bytes / 1024),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl Limit {
    fn from_raw(raw: libc::rlim_t) -> Self {
        match raw {
            libc::RLIM_INFINITY => Self::Unlimited,
            bytes => Self::Bytes(bytes),
        }
    }
}

/// RLIMIT_MEMLOCK: what applies now, and how far it can be raised without privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockLimit {
    /// The limit in force.
    pub soft: Limit,
    /// How far an unprivileged process may raise it.
    pub hard: Limit,
}

/// Reads RLIMIT_MEMLOCK.
///
/// # Errors
/// [`MemoryError::ReadLimit`].
pub fn lock_limit() -> Result<LockLimit, MemoryError> {
    let raw = raw_lock_limit().map_err(MemoryError::ReadLimit)?;
    Ok(LockLimit { soft: Limit::from_raw(raw.rlim_cur), hard: Limit::from_raw(raw.rlim_max) })
}

fn raw_lock_limit() -> io::Result<libc::rlimit> {
    let mut raw = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `raw` is a valid rlimit to write to.
    match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut raw) } {
        0 => Ok(raw),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lifts RLIMIT_MEMLOCK for this process and what it starts: to unlimited with
/// CAP_SYS_RESOURCE, else to the hard limit. Says what it came to.
///
/// # Errors
/// [`MemoryError::ReadLimit`], [`MemoryError::RaiseLimit`].
pub fn raise_lock_limit() -> Result<LockLimit, MemoryError> {
    let raw = raw_lock_limit().map_err(MemoryError::ReadLimit)?;
    let infinite = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    if set_lock_limit(&infinite).is_err() {
        let most = libc::rlimit { rlim_cur: raw.rlim_max, rlim_max: raw.rlim_max };
        set_lock_limit(&most).map_err(|error| MemoryError::RaiseLimit {
            hard: Limit::from_raw(raw.rlim_max),
            error,
        })?;
    }
    lock_limit()
}

fn set_lock_limit(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: `limit` is a valid rlimit that is only read.
    match unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Locks all of this process's memory, present and future, and thereby faults it in.
///
/// # Errors
/// [`MemoryError::Lock`] with the limit that stood in the way.
pub fn lock_all() -> Result<(), MemoryError> {
    // SAFETY: takes flags only; it changes residency, never contents.
    match unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(MemoryError::Lock { limit: lock_limit()?.soft, error })
        }
    }
}

/// Undoes [`lock_all`].
pub fn unlock_all() {
    // SAFETY: takes nothing. It cannot fail on Linux.
    unsafe { libc::munlockall() };
}

/// Writes one value per page to every page of `buffer`, so that the first real write takes no
/// page fault: memory fresh from the kernel is a shared zero page until somebody writes.
pub fn prefault<T: Copy>(buffer: &mut [T], value: T) {
    let step = (page_size() / size_of::<T>().max(1)).max(1);
    for slot in buffer.iter_mut().step_by(step) {
        // Volatile, lest the compiler drop writes that nobody reads.
        // SAFETY: `slot` is a valid, aligned, exclusive reference to a Copy value.
        unsafe { std::ptr::write_volatile(slot, value) };
    }
    if let Some(last) = buffer.last_mut() {
        // SAFETY: as above.
        unsafe { std::ptr::write_volatile(last, value) };
    }
}

/// The size of a page in bytes.
pub fn page_size() -> usize {
    // SAFETY: takes a number and returns one.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

const MPOL_BIND: libc::c_int = 2;

/// Makes the calling thread take memory from `nodes` only. Survives `fork` and `execve`; memory
/// that is already there stays where it is.
///
/// # Errors
/// [`MemoryError::Policy`]: a node that does not exist or is outside the cpuset, or a kernel
/// without NUMA.
pub fn bind_to_nodes(nodes: &CpuSet) -> Result<(), MemoryError> {
    let mut words = vec![0u64; nodes.highest().unwrap_or_default() / 64 + 1];
    for node in nodes.iter() {
        words[node / 64] |= 1 << (node % 64);
    }
    set_policy(MPOL_BIND, &words)
        .map_err(|error| MemoryError::Policy { nodes: nodes.clone(), error })
}

fn set_policy(mode: libc::c_int, words: &[u64]) -> io::Result<()> {
    // The kernel reads one bit less than it is told (`maxnode - 1`), so tell it one more.
    let bits = words.len() * 64 + 1;
    // SAFETY: the kernel reads `bits - 1` bits from `words`, which is as long as that.
    match unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, words.as_ptr(), bits) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched;

    #[test]
    fn prefaulted_memory_takes_no_further_faults() {
        std::thread::spawn(|| {
            let mut buffer = vec![0u64; 1 << 20];
            prefault(&mut buffer, 0);
            let before = sched::usage().unwrap();
            for slot in &mut buffer {
                // SAFETY: a valid, aligned, exclusive reference.
                unsafe { std::ptr::write_volatile(slot, 1) };
            }
            let faults = sched::usage().unwrap().since(&before).minor_faults;
            // 2048 pages would fault without it; a stray one (stack, counters) may.
            assert!(faults < 16, "{faults} faults");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn prefault_reaches_the_ends_and_spares_the_rest() {
        let mut bytes = vec![7u8; 3 * page_size() + 1];
        prefault(&mut bytes, 9);
        assert_eq!(bytes.first(), Some(&9));
        assert_eq!(bytes.last(), Some(&9));
        assert_eq!(bytes[1], 7);
        prefault::<u8>(&mut [], 0);
    }

    #[test]
    fn the_lock_limit_is_read() {
        let limit = lock_limit().unwrap();
        assert!(limit.soft <= limit.hard, "{limit:?}");
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let nodes: CpuSet = [1000].into_iter().collect();
        let error = std::thread::spawn(move || bind_to_nodes(&nodes)).join().unwrap().unwrap_err();
        assert!(error.to_string().contains("1000"), "{error}");
    }
}
