//! Counters of the kernel and of the processor, for the calling thread or a whole CPU.
//!
//! Counting only, no sampling. A virtual machine often has no performance monitoring unit: then
//! the hardware counters say so instead of saying 0, and the software ones still work.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use quietcore_measure::Reading;

/// What to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Switches to another task (software).
    ContextSwitches,
    /// Moves to another CPU (software).
    CpuMigrations,
    /// Page faults of both kinds (software).
    PageFaults,
    /// Clock cycles at the actual frequency (hardware).
    Cycles,
    /// Instructions retired (hardware).
    Instructions,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 5] = [
        Self::ContextSwitches,
        Self::CpuMigrations,
        Self::PageFaults,
        Self::Cycles,
        Self::Instructions,
    ];

    /// The name `perf list` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::ContextSwitches => "context-switches",
            Self::CpuMigrations => "cpu-migrations",
            Self::PageFaults => "page-faults",
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
        }
    }

    /// Whether the processor counts it, and not the kernel.
    pub fn is_hardware(self) -> bool {
        matches!(self, Self::Cycles | Self::Instructions)
    }

    /// `type` and `config` of the kernel's `perf_event_attr`.
    fn code(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        match self {
            Self::Cycles => (HARDWARE, 0),
            Self::Instructions => (HARDWARE, 1),
            Self::PageFaults => (SOFTWARE, 2),
            Self::ContextSwitches => (SOFTWARE, 3),
            Self::CpuMigrations => (SOFTWARE, 4),
        }
    }
}

/// Whose events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The calling thread, wherever it runs.
    ThisThread,
    /// Everything on one CPU; needs CAP_PERFMON or a `perf_event_paranoid` of 0 or less.
    Cpu(usize),
}

/// `struct perf_event_attr` in its first version: 64 bytes, which every kernel takes.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const FORMAT_TOTAL_TIME_ENABLED: u64 = 1;
const FORMAT_TOTAL_TIME_RUNNING: u64 = 2;
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// A running counter.
#[derive(Debug)]
pub struct Counter {
    event: Event,
    file: File,
}

impl Counter {
    /// Starts to count. [`Reading::Unsupported`] where the machine cannot count this,
    /// [`Reading::Failed`] where it is not allowed to.
    pub fn open(event: Event, scope: Scope) -> Reading<Self> {
        let (kind, config) = event.code();
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            read_format: FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING,
            ..Attributes::default()
        };
        let (pid, cpu) = match scope {
            Scope::ThisThread => (0, -1),
            Scope::Cpu(cpu) => (-1, cpu as libc::c_int),
        };
        // SAFETY: `attributes` outlives the call and its `size` is the size of the struct.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &attributes,
                pid as libc::pid_t,
                cpu,
                -1 as libc::c_int,
                FLAG_FD_CLOEXEC,
            )
        };
        if fd < 0 {
            return refusal(event, scope, &io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else owns it.
        let file = unsafe { File::from_raw_fd(fd as libc::c_int) };
        Reading::Measured(Self { event, file })
    }

    /// The count since [`open`](Self::open).
    pub fn read(&mut self) -> Reading<u64> {
        let mut bytes = [0u8; 24];
        if let Err(error) = self.file.read_exact(&mut bytes) {
            return Reading::Failed(format!("reading {} failed: {error}", self.event.name()));
        }
        let word = |index: usize| {
            bytes[index * 8..].first_chunk().map_or(0, |chunk: &[u8; 8]| u64::from_ne_bytes(*chunk))
        };
        classify(self.event.name(), word(0), word(1), word(2))
    }
}

/// What a count is worth, given how long the counter was wanted (`enabled_ns`) and how long it
/// really counted (`running_ns`). A counter that shared the hardware with others saw a part of
/// the time only; extrapolating would present a guess as a measurement.
pub fn classify(name: &str, count: u64, enabled_ns: u64, running_ns: u64) -> Reading<u64> {
    match (enabled_ns, running_ns) {
        (0, _) => Reading::Failed(format!("{name} was never enabled: its task has not run")),
        (_, 0) => Reading::Failed(format!(
            "{name} never counted: every hardware counter is taken, often one by the NMI watchdog"
        )),
        (enabled, running) if running < enabled => Reading::Failed(format!(
            "{name} counted {:.1} % of the time only ({count} events): it shares the hardware \
             counters with other users",
            running as f64 / enabled as f64 * 100.0
        )),
        _ => Reading::Measured(count),
    }
}

fn refusal<T>(event: Event, scope: Scope, error: &io::Error) -> Reading<T> {
    let name = event.name();
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) if event.is_hardware() => {
            Reading::Unsupported(format!(
                "{name}: no performance monitoring unit here (usual in a virtual machine)"
            ))
        }
        Some(libc::ENOSYS) => {
            Reading::Unsupported(format!("{name}: this kernel was built without perf events"))
        }
        Some(libc::EACCES | libc::EPERM) => Reading::Failed(format!(
            "{name}: not allowed; grant CAP_PERFMON or lower kernel.perf_event_paranoid \
             (a seccomp filter of a container refuses likewise)"
        )),
        _ => Reading::Failed(match scope {
            Scope::ThisThread => format!("{name}: {error}"),
            Scope::Cpu(cpu) => format!("{name} on CPU {cpu}: {error}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_counter_that_always_ran_is_measured() {
        assert_eq!(classify("x", 7, 100, 100), Reading::Measured(7));
        assert_eq!(classify("x", 0, 100, 100), Reading::Measured(0));
        for (enabled, running, why) in
            [(0, 0, "never enabled"), (100, 0, "taken"), (100, 25, "25.0 %")]
        {
            let reading = classify("x", 7, enabled, running);
            assert!(matches!(&reading, Reading::Failed(text) if text.contains(why)), "{reading:?}");
        }
    }

    #[test]
    fn a_machine_without_counters_is_not_a_failure() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        let reading: Reading<u64> = refusal(Event::Cycles, Scope::ThisThread, &error);
        assert!(matches!(reading, Reading::Unsupported(_)));
        let reading: Reading<u64> = refusal(Event::PageFaults, Scope::ThisThread, &error);
        assert!(matches!(reading, Reading::Failed(_)));
        let error = io::Error::from_raw_os_error(libc::EACCES);
        let reading: Reading<u64> = refusal(Event::Cycles, Scope::Cpu(1), &error);
        assert!(matches!(reading, Reading::Failed(text) if text.contains("CAP_PERFMON")));
    }

    #[test]
    fn page_faults_of_this_thread_are_counted_or_refused_with_a_reason() {
        match Counter::open(Event::PageFaults, Scope::ThisThread) {
            Reading::Measured(mut counter) => {
                let before = counter.read().value().copied().unwrap();
                // Beyond malloc's largest threshold for its own heap, so the pages are new.
                let mut fresh = vec![0u8; 40 << 20];
                crate::memory::prefault(&mut fresh[..1 << 18], 1);
                assert!(counter.read().value().copied().unwrap() > before);
            }
            other => assert!(!other.why().is_empty()),
        }
    }
}
