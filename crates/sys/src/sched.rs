//! Where and in which class a thread runs.
//!
//! Raw system calls with masks as long as the kernel asks for: `cpu_set_t` ends at 1024 CPUs.
//! Whatever is set is read back, because the kernel narrows a mask to the thread's cpuset and to
//! the CPUs that are online without a word.

use std::fmt;
use std::io;
use std::mem;

use quietcore_measure::CpuSet;

/// Stands for the calling thread wherever a thread id is asked for.
pub const CALLER: i32 = 0;

/// The largest mask any kernel needs, in 64-bit words: 16,384 CPUs.
const LARGEST_MASK: usize = 256;

/// Why a thread could not be looked at or placed.
#[derive(Debug, thiserror::Error)]
pub enum SchedError {
    /// The affinity of a thread could not be read.
    #[error("cannot read the CPU affinity of {}: {error}", thread(*.tid))]
    Affinity {
        /// The thread; 0 is the caller.
        tid: i32,
        /// What the kernel said.
        error: io::Error,
    },
    /// A thread could not be placed.
    #[error("cannot place {} on CPUs {cpus}: {error}{}", thread(*.tid), placing_hint(.error))]
    Place {
        /// The thread; 0 is the caller.
        tid: i32,
        /// Where it should run.
        cpus: CpuSet,
        /// What the kernel said.
        error: io::Error,
    },
    /// The kernel took the mask and narrowed it.
    #[error(
        "{} may run on CPUs {got} only, not on {asked}: the others are offline or outside its \
         cpuset (see Cpus_allowed_list in /proc/self/status)", thread(*.tid)
    )]
    Narrowed {
        /// The thread; 0 is the caller.
        tid: i32,
        /// What was asked for.
        asked: CpuSet,
        /// What the kernel made of it.
        got: CpuSet,
    },
    /// The scheduling class of a thread could not be read.
    #[error("cannot read the scheduling class of {}: {error}", thread(*.tid))]
    Class {
        /// The thread; 0 is the caller.
        tid: i32,
        /// What the kernel said.
        error: io::Error,
    },
    /// The scheduling class of a thread could not be set.
    #[error("cannot put {} into {class}: {error}{}", thread(*.tid), class_hint(.error))]
    SetClass {
        /// The thread; 0 is the caller.
        tid: i32,
        /// The class asked for.
        class: Class,
        /// What the kernel said.
        error: io::Error,
    },
    /// A class that is only ever read.
    #[error(
        "{class} is set by the program itself; only other, batch, idle, fifo and rr can be set here"
    )]
    ReadOnly {
        /// The class asked for.
        class: Class,
    },
    /// The kernel did not say what the thread used.
    #[error("cannot read this thread's resource usage: {0}")]
    Usage(io::Error),
}

fn thread(tid: i32) -> String {
    match tid {
        CALLER => "the calling thread".to_owned(),
        tid => format!("thread {tid}"),
    }
}

fn placing_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EINVAL) => ": none of these CPUs is online and in the thread's cpuset",
        Some(libc::EPERM) => ": it belongs to another user; CAP_SYS_NICE is needed",
        Some(libc::ESRCH) => ": it has ended",
        _ => "",
    }
}

fn class_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            ": grant CAP_SYS_NICE, or raise RLIMIT_RTPRIO (`ulimit -r`, rtprio in limits.conf, \
             LimitRTPRIO= of the unit); in a control group of version 1 the group also needs \
             cpu.rt_runtime_us"
        }
        Some(libc::ESRCH) => ": it has ended",
        _ => "",
    }
}

/// A scheduling class with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// SCHED_OTHER: fair sharing, weighted by the nice value (-20 to 19).
    Other {
        /// The nice value.
        nice: i32,
    },
    /// SCHED_BATCH: fair sharing, woken up with less zeal.
    Batch {
        /// The nice value.
        nice: i32,
    },
    /// SCHED_IDLE: when nothing else wants the CPU.
    Idle,
    /// SCHED_FIFO: runs until it sleeps or a higher priority (1 to 99) wants the CPU.
    Fifo {
        /// 1 to 99.
        priority: u8,
    },
    /// SCHED_RR: as FIFO, taking turns within a priority (1 to 99).
    RoundRobin {
        /// 1 to 99.
        priority: u8,
    },
    /// SCHED_DEADLINE: `runtime_ns` in every `period_ns`, done by `deadline_ns`.
    Deadline {
        /// Budget.
        runtime_ns: u64,
        /// Relative deadline.
        deadline_ns: u64,
        /// Period.
        period_ns: u64,
    },
    /// A class this program does not know (SCHED_EXT is 7).
    Unknown {
        /// The kernel's number for it.
        policy: u32,
    },
}

impl Class {
    /// Whether a thread of this class can starve ordinary ones.
    pub fn is_realtime(self) -> bool {
        matches!(self, Self::Fifo { .. } | Self::RoundRobin { .. } | Self::Deadline { .. })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other { nice } => write!(f, "SCHED_OTHER nice {nice}"),
            Self::Batch { nice } => write!(f, "SCHED_BATCH nice {nice}"),
            Self::Idle => write!(f, "SCHED_IDLE"),
            Self::Fifo { priority } => write!(f, "SCHED_FIFO {priority}"),
            Self::RoundRobin { priority } => write!(f, "SCHED_RR {priority}"),
            Self::Deadline { runtime_ns, deadline_ns, period_ns } => {
                write!(f, "SCHED_DEADLINE {runtime_ns}/{deadline_ns}/{period_ns} ns")
            }
            Self::Unknown { policy } => write!(f, "scheduling policy {policy}"),
        }
    }
}

/// The kernel's `struct sched_attr` in its first version, which every kernel since 3.14 takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SCHED_FLAG_RESET_ON_FORK: u64 = 1;
const SCHED_DEADLINE: u32 = 6;

impl SchedAttr {
    fn class(&self) -> Class {
        let priority = u8::try_from(self.priority).unwrap_or(u8::MAX);
        match self.policy as i32 {
            libc::SCHED_OTHER => Class::Other { nice: self.nice },
            libc::SCHED_BATCH => Class::Batch { nice: self.nice },
            libc::SCHED_IDLE => Class::Idle,
            libc::SCHED_FIFO => Class::Fifo { priority },
            libc::SCHED_RR => Class::RoundRobin { priority },
            _ if self.policy == SCHED_DEADLINE => Class::Deadline {
                runtime_ns: self.runtime,
                deadline_ns: self.deadline,
                period_ns: self.period,
            },
            _ => Class::Unknown { policy: self.policy },
        }
    }

    fn from_class(class: Class) -> Option<Self> {
        let (policy, nice, priority) = match class {
            Class::Other { nice } => (libc::SCHED_OTHER, nice, 0),
            Class::Batch { nice } => (libc::SCHED_BATCH, nice, 0),
            Class::Idle => (libc::SCHED_IDLE, 0, 0),
            Class::Fifo { priority } => (libc::SCHED_FIFO, 0, priority),
            Class::RoundRobin { priority } => (libc::SCHED_RR, 0, priority),
            Class::Deadline { .. } | Class::Unknown { .. } => return None,
        };
        Some(Self {
            size: size_of::<Self>() as u32,
            policy: policy as u32,
            nice,
            priority: priority.into(),
            ..Self::default()
        })
    }
}

/// The CPUs that thread `tid` may run on.
///
/// # Errors
/// [`SchedError::Affinity`] if there is no such thread.
pub fn affinity(tid: i32) -> Result<CpuSet, SchedError> {
    // EINVAL says that the mask is shorter than the kernel's own, so grow until it fits.
    let mut words = vec![0u64; 16];
    loop {
        // SAFETY: the kernel writes at most the given number of bytes into `words`.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                tid,
                words.len() * size_of::<u64>(),
                words.as_mut_ptr(),
            )
        };
        if let Ok(bytes) = usize::try_from(bytes) {
            words.truncate(bytes.div_ceil(size_of::<u64>()));
            return Ok(from_words(&words));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() >= LARGEST_MASK {
            return Err(SchedError::Affinity { tid, error });
        }
        words = vec![0; words.len() * 2];
    }
}

/// Lets thread `tid` run on `cpus` only, and makes sure that it is so.
///
/// # Errors
/// [`SchedError::Place`] if the kernel refuses, [`SchedError::Narrowed`] if it grants less.
pub fn place(tid: i32, cpus: &CpuSet) -> Result<(), SchedError> {
    let words = to_words(cpus);
    // SAFETY: the kernel reads the given number of bytes from `words`.
    let status = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            tid,
            words.len() * size_of::<u64>(),
            words.as_ptr(),
        )
    };
    if status != 0 {
        let error = io::Error::last_os_error();
        return Err(SchedError::Place { tid, cpus: cpus.clone(), error });
    }
    let got = affinity(tid)?;
    match got == *cpus {
        true => Ok(()),
        false => Err(SchedError::Narrowed { tid, asked: cpus.clone(), got }),
    }
}

fn from_words(words: &[u64]) -> CpuSet {
    (0..words.len() * 64).filter(|cpu| words[cpu / 64] >> (cpu % 64) & 1 == 1).collect()
}

/// Never empty, so that an empty set reaches the kernel and is refused by it.
fn to_words(cpus: &CpuSet) -> Vec<u64> {
    let mut words = vec![0u64; cpus.highest().unwrap_or_default() / 64 + 1];
    for cpu in cpus.iter() {
        words[cpu / 64] |= 1 << (cpu % 64);
    }
    words
}

/// The scheduling class of thread `tid`.
///
/// # Errors
/// [`SchedError::Class`] if there is no such thread.
pub fn class(tid: i32) -> Result<Class, SchedError> {
    attributes(tid).map(|attr| attr.class())
}

/// Puts thread `tid` into `class`. A reset-on-fork flag is kept.
///
/// # Errors
/// [`SchedError::SetClass`] without the privilege, [`SchedError::ReadOnly`] for a class that
/// cannot be set here.
pub fn set_class(tid: i32, class: Class) -> Result<(), SchedError> {
    let mut attr = SchedAttr::from_class(class).ok_or(SchedError::ReadOnly { class })?;
    attr.flags = attributes(tid)?.flags & SCHED_FLAG_RESET_ON_FORK;
    // SAFETY: the kernel reads `attr.size` bytes, which is the size of `attr`.
    let status = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &attr, 0) };
    match status {
        0 => Ok(()),
        _ => Err(SchedError::SetClass { tid, class, error: io::Error::last_os_error() }),
    }
}

fn attributes(tid: i32) -> Result<SchedAttr, SchedError> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most the given number of bytes, the size of `attr`.
    let status = unsafe {
        libc::syscall(libc::SYS_sched_getattr, tid, &mut attr, size_of::<SchedAttr>(), 0)
    };
    match status {
        0 => Ok(attr),
        _ => Err(SchedError::Class { tid, error: io::Error::last_os_error() }),
    }
}

/// The CPU this thread runs on; with a wider affinity the answer may be stale on return.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: takes nothing and returns a number.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The kernel's id of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing, cannot fail; a thread id fits the pid_t it is declared as.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// What a thread has used and suffered since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user space, in nanoseconds.
    pub user_ns: u64,
    /// Time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Times it gave the CPU up by itself.
    pub voluntary_switches: u64,
    /// Times another task was put in its place.
    pub involuntary_switches: u64,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Page faults that waited for a device.
    pub major_faults: u64,
}

impl Usage {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
        }
    }
}

/// What the calling thread has used.
///
/// # Errors
/// [`SchedError::Usage`], which no Linux since 2.6.26 gives cause for.
pub fn usage() -> Result<Usage, SchedError> {
    // SAFETY: rusage is plain data for which all zeroes is a valid value.
    let mut raw: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `raw` is a valid rusage to write to.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut raw) } != 0 {
        return Err(SchedError::Usage(io::Error::last_os_error()));
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    Ok(Usage {
        user_ns: ns(raw.ru_utime),
        system_ns: ns(raw.ru_stime),
        voluntary_switches: raw.ru_nvcsw as u64,
        involuntary_switches: raw.ru_nivcsw as u64,
        minor_faults: raw.ru_minflt as u64,
        major_faults: raw.ru_majflt as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_where_it_was_placed() {
        std::thread::spawn(|| {
            let cpu = affinity(CALLER).unwrap().highest().unwrap();
            let only: CpuSet = [cpu].into_iter().collect();
            place(CALLER, &only).unwrap();
            assert_eq!(affinity(CALLER).unwrap(), only);
            assert_eq!(affinity(thread_id()).unwrap(), only);
            assert_eq!(current_cpu(), Some(cpu));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_aloud() {
        let none: CpuSet = [9000].into_iter().collect();
        let error = place(CALLER, &none).unwrap_err();
        assert!(matches!(error, SchedError::Place { .. }), "{error}");
        assert!(error.to_string().contains("online"), "{error}");
        let here = affinity(CALLER).unwrap().lowest().unwrap();
        let partly: CpuSet = [here, 9000].into_iter().collect();
        let error = std::thread::spawn(move || place(CALLER, &partly)).join().unwrap().unwrap_err();
        assert!(matches!(error, SchedError::Narrowed { .. }), "{error}");
    }

    #[test]
    fn the_empty_set_is_refused() {
        assert!(place(CALLER, &CpuSet::new()).is_err());
    }

    #[test]
    fn masks_longer_than_1024_cpus_survive_the_words() {
        let set: CpuSet = [0, 63, 64, 1023, 1024, 8191].into_iter().collect();
        assert_eq!(from_words(&to_words(&set)), set);
    }

    #[test]
    fn an_ordinary_class_reads_back_as_set() {
        std::thread::spawn(|| {
            for class_set in [Class::Batch { nice: 3 }, Class::Idle] {
                set_class(CALLER, class_set).unwrap();
                assert_eq!(class(CALLER).unwrap(), class_set);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_kernel_s_attributes_become_classes() {
        let attr =
            |policy, nice, priority| SchedAttr { policy, nice, priority, ..Default::default() };
        assert_eq!(attr(0, -5, 0).class(), Class::Other { nice: -5 });
        assert_eq!(attr(1, 0, 80).class(), Class::Fifo { priority: 80 });
        assert_eq!(attr(2, 0, 1).class(), Class::RoundRobin { priority: 1 });
        assert_eq!(attr(7, 0, 0).class(), Class::Unknown { policy: 7 });
        let deadline =
            SchedAttr { policy: 6, runtime: 1, deadline: 2, period: 3, ..Default::default() };
        let class = Class::Deadline { runtime_ns: 1, deadline_ns: 2, period_ns: 3 };
        assert_eq!(deadline.class(), class);
        assert!(matches!(set_class(CALLER, class), Err(SchedError::ReadOnly { .. })));
    }

    #[test]
    fn yielding_is_counted_as_voluntary() {
        std::thread::spawn(|| {
            let before = usage().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert!(usage().unwrap().since(&before).voluntary_switches >= 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_has_ended_is_an_error_that_names_it() {
        let tid = std::thread::spawn(thread_id).join().unwrap();
        // It is joined a little before it is gone.
        while std::path::Path::new(&format!("/proc/self/task/{tid}")).exists() {
            std::thread::yield_now();
        }
        let error = class(tid).unwrap_err().to_string();
        assert!(error.contains(&tid.to_string()), "{error}");
    }
}
