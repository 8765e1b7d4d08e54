//! A spike and what it was made of.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cause, Nanos};

/// Time that a thread should have spent running and did not, or not on its own work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spike {
    /// When it began, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// How long it was.
    pub len_ns: Nanos,
    /// Whom it hit.
    pub thread: Thread,
    /// Where the thread was when it ended.
    pub cpu: u32,
    /// What it was made of, in the order of time. Their lengths add up to the spike's, exactly.
    pub segments: Vec<Segment>,
    /// Why the segments may not be the whole truth, as "events of CPU 3 were overwritten".
    pub incomplete: Option<String>,
    /// The thread's user stack when it began, innermost first, as far as it could be unwound.
    pub stack: Vec<String>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
}

/// A part of a spike that has one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// When it began, in nanoseconds after the spike did.
    pub at_ns: Nanos,
    /// How long it was.
    pub len_ns: Nanos,
    /// What it was.
    pub kind: Kind,
    /// Who or what exactly, as `kworker/1:2 (tid 812)`, `eth0-rx-3 (IRQ 61)`, `futex`; may be empty.
    pub by: String,
    /// What says so, one line each.
    pub evidence: Vec<String>,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident $name:literal $cause:ident;)*) => {
        /// What a thread's time went to.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Kind {
            $($(#[doc = $doc])* $kind,)*
        }

        impl Kind {
            /// Every kind, in the order reports use.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The name used in JSON, metrics and tables.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// What it is among the causes that checks guard against; `None` where it is the
            /// thread's own work or nothing is known.
            pub fn cause(self) -> Option<Cause> {
                match self {
                    $(Self::$kind => kinds!(@cause $cause),)*
                }
            }
        }
    };
    (@cause None) => { None };
    (@cause $cause:ident) => { Some(Cause::$cause) };
}

kinds! {
    /// The thread's own code, on its CPU.
    User "user" None;
    /// The kernel's code on the thread's behalf: a system call.
    Kernel "kernel" None;
    /// A page fault.
    PageFault "page_fault" Memory;
    /// Waiting for a lock: futex and the like.
    Lock "lock" Lock;
    /// Waiting for a device or a file system.
    Io "io" Memory;
    /// Reclaiming or compacting memory itself.
    Reclaim "reclaim" Memory;
    /// Waiting for the lock of the address space.
    MmapLock "mmap_lock" Memory;
    /// A sleep or a wait for input that was asked for.
    Sleep "sleep" None;
    /// Blocked in the kernel on something else.
    Blocked "blocked" None;
    /// From the waker's decision until the thread was on a run queue.
    WakeIpi "wake_ipi" Scheduler;
    /// The CPU left an idle state.
    IdleExit "idle_exit" CState;
    /// On a run queue, behind somebody.
    RunQueue "run_queue" Scheduler;
    /// Taken off the CPU for somebody else.
    Preempted "preempted" Scheduler;
    /// A device's interrupt.
    HardIrq "hard_irq" Irq;
    /// A softirq.
    Softirq "softirq" Irq;
    /// A non-maskable interrupt.
    Nmi "nmi" Irq;
    /// A function that another CPU asked for.
    Ipi "ipi" Irq;
    /// Address translations dropped for another CPU.
    TlbShootdown "tlb_shootdown" Irq;
    /// The periodic tick.
    Tick "tick" Tick;
    /// A high-resolution timer.
    Timer "timer" Tick;
    /// The safety catch for real-time threads.
    RtThrottled "rt_throttled" Scheduler;
    /// The quota of a control group.
    CpuQuota "cpu_quota" Cgroup;
    /// A garbage collector stopped the program.
    Gc "gc" Gc;
    /// The hypervisor ran something else.
    Steal "steal" Virtualisation;
    /// Firmware took the CPU away.
    Smi "smi" Smi;
    /// The clock fell.
    Frequency "frequency" Frequency;
    /// The CPU provably ran this thread all the while, and time went by: the host below a guest, or
    /// firmware.
    HostOrFirmware "host_or_firmware" Virtualisation;
    /// No evidence covers it.
    Unexplained "unexplained" None;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Spike {
    /// Time by kind and by whom, the most first. The first names the spike.
    pub fn shares(&self) -> Vec<(Kind, &str, Nanos)> {
        let mut shares: BTreeMap<(Kind, &str), Nanos> = BTreeMap::new();
        for segment in &self.segments {
            *shares.entry((segment.kind, &segment.by)).or_default() += segment.len_ns;
        }
        let mut shares: Vec<_> =
            shares.into_iter().map(|((kind, by), len)| (kind, by, len)).collect();
        shares.sort_by_key(|&(.., len)| std::cmp::Reverse(len));
        shares
    }

    /// The kind that names the spike: that of the largest share.
    pub fn kind(&self) -> Kind {
        self.shares().first().map_or(Kind::Unexplained, |&(kind, ..)| kind)
    }

    /// Whether the segments follow one another without a hole and add up to the spike.
    pub fn adds_up(&self) -> bool {
        let end = self
            .segments
            .iter()
            .try_fold(Nanos(0), |at, segment| (segment.at_ns == at).then(|| at + segment.len_ns));
        end == Some(self.len_ns)
    }
}

/// Spikes and what they were made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spikes {
    /// Name within the run, as `spikes`.
    pub name: String,
    /// What the spikes are, for people.
    pub title: String,
    /// What counted as one.
    pub threshold_ns: Nanos,
    /// All spikes by the kind that named them, the most time first.
    pub kinds: Vec<KindCount>,
    /// The longest, in the order of time.
    pub spikes: Vec<Spike>,
    /// How many more there were than are kept here.
    pub omitted: u64,
}

impl Spikes {
    /// Adds those of another measurement, as of another CPU.
    pub fn merge(&mut self, other: Self) {
        self.threshold_ns = self.threshold_ns.max(other.threshold_ns);
        self.omitted += other.omitted;
        for more in other.kinds {
            match self.kinds.iter_mut().find(|there| there.kind == more.kind) {
                Some(there) => {
                    there.spikes += more.spikes;
                    there.total_ns += more.total_ns;
                    there.max_ns = there.max_ns.max(more.max_ns);
                }
                None => self.kinds.push(more),
            }
        }
        self.kinds.sort_by_key(|of| std::cmp::Reverse(of.total_ns));
        self.spikes.extend(other.spikes);
        self.spikes.sort_by_key(|spike| spike.start_ns);
    }
}

/// How much one kind is to blame for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindCount {
    /// The kind.
    pub kind: Kind,
    /// Spikes that it named.
    pub spikes: u64,
    /// Its segments' time in all spikes.
    pub total_ns: Nanos,
    /// The longest spike that it named.
    pub max_ns: Nanos,
}

/// Where time went by call stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flame {
    /// Name within the run, as `offcpu`.
    pub name: String,
    /// What it shows, for people.
    pub title: String,
    /// Unit of the values, as `ns` or `samples`.
    pub unit: String,
    /// Stacks as `outermost;…;innermost`, and how much each weighs.
    pub stacks: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(at: u64, len: u64, kind: Kind, by: &str) -> Segment {
        let (at_ns, len_ns) = (Nanos(at), Nanos(len));
        Segment { at_ns, len_ns, kind, by: by.to_owned(), evidence: Vec::new() }
    }

    fn spike(len: u64, segments: Vec<Segment>) -> Spike {
        Spike { len_ns: Nanos(len), segments, ..Spike::default() }
    }

    #[test]
    fn the_largest_share_names_the_spike() {
        let parts = vec![
            segment(0, 40, Kind::RunQueue, "a"),
            segment(40, 50, Kind::Tick, ""),
            segment(90, 30, Kind::RunQueue, "a"),
        ];
        let spike = spike(120, parts);
        assert_eq!(spike.kind(), Kind::RunQueue);
        assert_eq!(spike.shares()[0], (Kind::RunQueue, "a", Nanos(70)));
    }

    #[test]
    fn a_hole_between_segments_does_not_add_up() {
        assert!(
            spike(10, vec![segment(0, 4, Kind::User, ""), segment(4, 6, Kind::Tick, "")]).adds_up()
        );
        assert!(
            !spike(10, vec![segment(0, 4, Kind::User, ""), segment(5, 5, Kind::Tick, "")])
                .adds_up()
        );
        assert!(!spike(10, vec![segment(0, 4, Kind::User, "")]).adds_up());
        assert!(spike(0, vec![]).adds_up());
    }

    #[test]
    fn spikes_of_two_measurements_are_counted_together() {
        let of = |kind, spikes, total, max| {
            let (total_ns, max_ns) = (Nanos(total), Nanos(max));
            KindCount { kind, spikes, total_ns, max_ns }
        };
        let at = |start_ns| Spike { start_ns, ..Spike::default() };
        let all = |kinds, starts: &[u64], omitted| Spikes {
            kinds,
            spikes: starts.iter().copied().map(at).collect(),
            omitted,
            ..Spikes::default()
        };
        let mut sum = all(vec![of(Kind::Tick, 2, 10, 6)], &[5, 9], 1);
        sum.merge(all(vec![of(Kind::Ipi, 1, 90, 90), of(Kind::Tick, 3, 20, 8)], &[7], 4));
        assert_eq!(sum.kinds, [of(Kind::Ipi, 1, 90, 90), of(Kind::Tick, 5, 30, 8)]);
        assert_eq!(sum.spikes.iter().map(|spike| spike.start_ns).collect::<Vec<_>>(), [5, 7, 9]);
        assert_eq!(sum.omitted, 5);
    }

    #[test]
    fn names_are_the_serialised_ones() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{kind}\""));
        }
    }
}
