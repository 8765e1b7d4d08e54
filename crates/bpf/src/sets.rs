//! The recorder's programs, in sets that can be asked for.

use serde::{Deserialize, Serialize};

use crate::{Kernel, State};

/// What is recorded besides waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Set {
    /// Switches, wake-ups and waits; always on.
    Sched,
    /// When CPUs idle, and in which state; and when their clocks change.
    Idle,
    /// Hard interrupts, softirqs, the APIC's vectors, NMIs, and what expires in the timer's.
    Irq,
    /// Who made another CPU call a function, and what that dropped.
    Ipi,
    /// Page faults of watched threads.
    Fault,
    /// Why the tick runs, wheel timers, work items.
    Timer,
    /// Direct reclaim, compaction, and waiting for the lock of the address space, of watched threads.
    Memory,
    /// System calls of watched threads; every task of the host pays for it.
    Syscall,
}

impl Set {
    /// Every set, the cheapest that explain most first.
    pub const ALL: [Self; 8] = [
        Self::Sched,
        Self::Idle,
        Self::Irq,
        Self::Ipi,
        Self::Fault,
        Self::Timer,
        Self::Memory,
        Self::Syscall,
    ];

    /// The set that a program of [`crate::Timeline::health`] belongs to.
    pub fn of(program: &str) -> Option<Self> {
        PROGRAMS.iter().find(|&&(name, ..)| name == program).map(|&(.., set)| set)
    }

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sched => "sched",
            Self::Idle => "idle",
            Self::Irq => "irq",
            Self::Ipi => "ipi",
            Self::Fault => "fault",
            Self::Timer => "timer",
            Self::Memory => "memory",
            Self::Syscall => "syscall",
        }
    }
}

/// Every program, its tracepoint and its set. Wake-ups come before switches: attached later, the
/// first sleep of every thread would seem to end without one.
pub(crate) const PROGRAMS: &[(&str, &str, Set)] = &[
    ("waking", "sched_waking", Set::Sched),
    ("wakeup", "sched_wakeup", Set::Sched),
    ("idle", "cpu_idle", Set::Idle),
    ("frequency", "cpu_frequency", Set::Idle),
    ("irq_entry", "irq_handler_entry", Set::Irq),
    ("irq_exit", "irq_handler_exit", Set::Irq),
    ("softirq_entry", "softirq_entry", Set::Irq),
    ("softirq_exit", "softirq_exit", Set::Irq),
    ("local_timer_entry", "local_timer_entry", Set::Irq),
    ("local_timer_exit", "local_timer_exit", Set::Irq),
    ("reschedule_entry", "reschedule_entry", Set::Irq),
    ("reschedule_exit", "reschedule_exit", Set::Irq),
    ("call_function_entry", "call_function_entry", Set::Irq),
    ("call_function_exit", "call_function_exit", Set::Irq),
    ("call_function_single_entry", "call_function_single_entry", Set::Irq),
    ("call_function_single_exit", "call_function_single_exit", Set::Irq),
    ("irq_work_entry", "irq_work_entry", Set::Irq),
    ("irq_work_exit", "irq_work_exit", Set::Irq),
    ("thermal_apic_entry", "thermal_apic_entry", Set::Irq),
    ("thermal_apic_exit", "thermal_apic_exit", Set::Irq),
    ("x86_platform_ipi_entry", "x86_platform_ipi_entry", Set::Irq),
    ("x86_platform_ipi_exit", "x86_platform_ipi_exit", Set::Irq),
    ("spurious_apic_entry", "spurious_apic_entry", Set::Irq),
    ("spurious_apic_exit", "spurious_apic_exit", Set::Irq),
    ("error_apic_entry", "error_apic_entry", Set::Irq),
    ("error_apic_exit", "error_apic_exit", Set::Irq),
    ("nmi", "nmi_handler", Set::Irq),
    ("hrtimer", "hrtimer_expire_entry", Set::Irq),
    ("tlb_flush", "tlb_flush", Set::Ipi),
    ("ipi_one", "ipi_send_cpu", Set::Ipi),
    ("ipi_many", "ipi_send_cpumask", Set::Ipi),
    ("fault_user", "page_fault_user", Set::Fault),
    ("timer", "timer_expire_entry", Set::Timer),
    ("work", "workqueue_execute_start", Set::Timer),
    ("tick_stop", "tick_stop", Set::Timer),
    ("reclaim_begin", "mm_vmscan_direct_reclaim_begin", Set::Memory),
    ("reclaim_end", "mm_vmscan_direct_reclaim_end", Set::Memory),
    ("group_reclaim_begin", "mm_vmscan_memcg_reclaim_begin", Set::Memory),
    ("group_reclaim_end", "mm_vmscan_memcg_reclaim_end", Set::Memory),
    ("compaction_begin", "mm_compaction_begin", Set::Memory),
    ("compaction_end", "mm_compaction_end", Set::Memory),
    ("mmap_lock_begin", "mmap_lock_start_locking", Set::Memory),
    ("mmap_lock_end", "mmap_lock_acquire_returned", Set::Memory),
    ("syscall_enter", "sys_enter", Set::Syscall),
    ("syscall_exit", "sys_exit", Set::Syscall),
    ("switch4", "sched_switch", Set::Sched),
    ("switch3", "sched_switch", Set::Sched),
];

/// The only program that hangs on no tracepoint, but on each CPU's count of faults.
pub(crate) const FAULT_END: &str = "fault_end";

/// Why a program is not loaded, before the kernel is asked to.
pub(crate) fn left_out(
    program: &str,
    tracepoint: &str,
    set: Set,
    asked: &[Set],
    kernel: &Kernel,
) -> Option<State> {
    let arguments = kernel.tracepoint(tracepoint);
    match (program, arguments) {
        (_, None) => Some(State::Unsupported(format!("no tracepoint {tracepoint} here"))),
        _ if set != Set::Sched && !asked.contains(&set) => {
            Some(State::NotApplicable("not asked for".into()))
        }
        ("switch4", Some(..4)) | ("switch3", Some(4..)) => {
            Some(State::NotApplicable("the other variant serves this kernel".into()))
        }
        _ => None,
    }
}
