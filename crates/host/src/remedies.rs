//! What removes a part of a spike: the checks that find its cause on a host, the knobs that turn it
//! off, and what is left to the program. One row per kind.

use quietcore_measure::Kind;

/// What removes one kind of a spike's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The kind.
    pub kind: Kind,
    /// Checks of the audit that find what lets it in.
    pub checks: &'static [&'static str],
    /// Knobs that keep it out.
    pub knobs: &'static [&'static str],
    /// What the program or its owner can do; empty where the knobs are all.
    pub advice: &'static str,
}

/// What removes a kind; `None` where nothing needs to or nothing is known.
pub fn remedy(kind: Kind) -> Option<&'static Remedy> {
    ALL.iter().find(|remedy| remedy.kind == kind)
}

macro_rules! remedies {
    ($($kind:ident: [$($check:literal),*], [$($knob:literal),*], $advice:literal;)*) => {
        /// Every remedy, in the order of [`Kind::ALL`].
        pub const ALL: &[Remedy] = &[$(Remedy {
            kind: Kind::$kind,
            checks: &[$($check),*],
            knobs: &[$($knob),*],
            advice: $advice,
        }),*];
    };
}

remedies! {
    User: ["freq.busy-vs-base", "smt.shared-core", "mem.hugepages"], [],
        "the program's own work: profile it";
    Kernel: ["kernel.mitigations", "service.kernel-audit"], ["boot-audit"],
        "make the system call elsewhere or less often";
    PageFault: ["proc.minor-faults", "proc.major-faults", "proc.locked-memory", "mem.thp"],
        ["transparent-hugepages", "swappiness"],
        "touch memory before it is needed and mlockall(MCL_CURRENT | MCL_FUTURE)";
    Lock: ["proc.allocator", "proc.class-mix", "proc.unbalanced"], [],
        "do not share the lock with the thread that holds it: allocate beforehand or per thread, or \
         do it outside of the hot path; another allocator, where the lock is malloc's";
    Io: ["mem.dirty", "kernel.io-pressure", "sched.workqueue-writeback"], ["dirty-limit"],
        "leave files and disks to another thread";
    Reclaim: ["mem.reclaim", "mem.min-free", "mem.zone-reclaim", "cgroup.memory-high"],
        ["watermark-scale", "zone-reclaim", "compaction-proactiveness"], "";
    MmapLock: ["mem.khugepaged", "proc.minor-faults"], ["khugepaged", "transparent-hugepages"],
        "no mmap, munmap or thread creation in any thread of the process while it counts";
    Sleep: [], [], "it was asked for: poll instead";
    Blocked: ["sched.kernel-threads"], [], "see its kernel stack";
    WakeIpi: ["proc.affinity", "irq.ipi"], ["process-affinity"],
        "a thread that polls needs no wake-up";
    IdleExit: ["cstate.exit-latency", "cstate.entered", "cstate.governor"],
        ["c-state-latency", "c-state-qos"], "";
    RunQueue: ["proc.threads-share-cpu", "sched.tasks-on-isolated", "isolation.isolcpus"],
        ["cpuset", "process-affinity", "kernel-threads", "boot-isolcpus"], "";
    Preempted: ["proc.involuntary", "sched.tasks-on-isolated", "sched.kernel-threads"],
        ["cpuset", "process-affinity", "kernel-threads", "workqueue-cpumask", "boot-isolcpus"], "";
    HardIrq: ["irq.effective-affinity", "irq.irqbalance", "irq.nic-queues"],
        ["irq-affinity", "irqbalance-banned", "boot-irqaffinity"], "";
    Softirq: ["net.softnet", "net.rps", "irq.nic-queues"], ["rps", "irq-affinity", "xps"], "";
    Nmi: ["sched.nmi-watchdog", "kernel.perf-sampling"], ["nmi-watchdog"], "";
    Ipi: ["irq.ipi", "rcu.expedited"], ["rcu-expedited"],
        "no membarrier, munmap or CPU hotplug by the processes that share its CPUs";
    TlbShootdown: ["irq.ipi", "mem.khugepaged", "numa.balancing", "mem.ksm"],
        ["khugepaged", "numa-balancing", "ksm"],
        "no munmap, mprotect or free of large blocks in other threads of the process";
    Tick: ["tick.busy-cpu", "isolation.nohz-full", "proc.posix-timers"], ["boot-nohz-full"], "";
    Timer: ["sched.timer-migration", "tick.vmstat"], ["timer-migration", "stat-interval"], "";
    RtThrottled: ["sched.rt-throttling", "proc.fifo-throttled"],
        ["sched-rt-runtime", "fair-server"], "";
    CpuQuota: ["cgroup.cpu-max", "cgroup.throttled-now"], [], "lift cpu.max of its control group";
    Gc: ["proc.garbage-collector", "jvm.pauses", "go.gogc"], [],
        "allocate nothing on the hot path, or another collector";
    Steal: ["virt.steal", "virt.dedicated"], [], "a dedicated host";
    Smi: ["smi.count", "smi.rising"], [], "the firmware's settings";
    Frequency: ["freq.governor", "freq.limit", "thermal.throttling-now"],
        ["governor", "min-frequency", "energy-performance-preference"], "";
    HostOrFirmware: ["virt.steal", "virt.hypervisor", "smi.count"], [],
        "a dedicated host, or the firmware's settings";
    Unexplained: [], [], "nothing that was recorded covers it";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks, knobs};

    #[test]
    fn every_kind_has_one_row_in_the_order_of_kinds() {
        let rows: Vec<Kind> = ALL.iter().map(|remedy| remedy.kind).collect();
        assert_eq!(rows, Kind::ALL);
    }

    #[test]
    fn every_check_and_knob_that_is_named_exists() {
        let checks: Vec<&str> = checks::ALL.iter().map(|check| check.id).collect();
        let knobs: Vec<&str> = knobs::ALL.iter().map(|knob| knob.id).collect();
        for remedy in ALL {
            for id in remedy.checks {
                assert!(checks.contains(id), "{}: there is no check {id}", remedy.kind);
            }
            for id in remedy.knobs {
                assert!(knobs.contains(id), "{}: there is no knob {id}", remedy.kind);
            }
        }
    }

    #[test]
    fn no_row_is_empty() {
        for remedy in ALL {
            let says = remedy.checks.len() + remedy.knobs.len() + remedy.advice.len();
            assert!(says > 0, "{}", remedy.kind);
        }
    }
}
