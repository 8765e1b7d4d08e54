//! What the programs hand over: `include/wire.h`, read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of an event in the recorder.
pub(crate) const EVENT: usize = 48;
/// Bytes of a CPU's head in the recorder.
pub(crate) const CPU: usize = 64;

/// The longest name the kernel keeps of a task, with the zero that ends it.
const COMM: usize = 16;

/// A task's or an interrupt's name, as the kernel keeps it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Name([u8; COMM]);

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let mut name = [0; COMM];
        let len = text.len().min(COMM - 1);
        name[..len].copy_from_slice(&text.as_bytes()[..len]);
        Self(name)
    }
}

impl From<[u8; COMM]> for Name {
    fn from(name: [u8; COMM]) -> Self {
        Self(name)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.to_string()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.split(|&b| b == 0).next().unwrap_or_default();
        f.pad(&String::from_utf8_lossy(text))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// One thing that happened on one CPU. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When; of what takes time, when it ended.
    pub ts: u64,
    /// Where.
    pub cpu: u32,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A task left the CPU and another came; 0 is the idle task.
    Switch {
        /// Who leaves.
        from: u32,
        /// Its state (`TASK_*`): 0 where it could run on.
        state: u16,
        /// The kernel itself was preempted.
        preempt: bool,
        /// Who comes.
        to: u32,
        /// Its process.
        tgid: u32,
        /// Its priority as the kernel counts: below 100 is real-time.
        prio: u16,
        /// Its name.
        comm: Name,
    },
    /// A device's hard interrupt was handled.
    Irq {
        /// Its number in /proc/interrupts.
        line: u32,
        /// When it began.
        since: u64,
        /// The driver's name for it.
        name: Name,
    },
    /// A softirq was handled.
    Softirq {
        /// Which: 0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX, 4 BLOCK, 5 IRQ_POLL, 6 TASKLET, 7 SCHED,
        /// 8 HRTIMER, 9 RCU.
        vector: u32,
        /// When it began.
        since: u64,
    },
    /// An interrupt of the CPU's own was handled.
    Vector {
        /// Which.
        vector: Vector,
        /// When it began.
        since: u64,
    },
    /// A non-maskable interrupt was handled.
    Nmi {
        /// How long it took in nanoseconds.
        ns: u64,
    },
    /// The CPU began to idle in this state, or ceased to.
    Idle {
        /// The number of the idle state; `None` when it ceased.
        state: Option<u32>,
    },
    /// A high-resolution timer expired.
    HrTimer {
        /// Address of its function.
        function: u64,
        /// When it was due, whatever its clock, on CLOCK_MONOTONIC.
        due: Option<u64>,
    },
    /// A timer of the wheel expired.
    Timer {
        /// Address of its function.
        function: u64,
    },
    /// A work item began.
    Work {
        /// Address of its function.
        function: u64,
    },
    /// Address translations were dropped.
    TlbFlush {
        /// 0 task switch, 1 another CPU asked, 2 and 3 this CPU asked, 4 asked of others.
        reason: u32,
        /// How many pages; all ones for all.
        pages: u64,
    },
    /// A task made other CPUs call a function.
    IpiSent {
        /// To which; `None` for several.
        to: Option<u32>,
        /// Who was running there.
        by: u32,
        /// Address of the function.
        function: u64,
        /// Its name.
        comm: Name,
    },
    /// A page fault began in a watched thread.
    Fault {
        /// The thread.
        tid: u32,
        /// The address.
        address: u64,
    },
    /// The kernel had dealt with a page fault of a watched thread.
    FaultEnd {
        /// The thread.
        tid: u32,
    },
    /// A watched thread made a system call.
    Syscall {
        /// The thread.
        tid: u32,
        /// Its number.
        number: u32,
        /// When it began.
        since: u64,
    },
    /// The kernel decided whether the tick may stop.
    TickStop {
        /// Whether it stopped.
        stopped: bool,
        /// What needs it (`TICK_DEP_MASK_*`).
        dependency: u32,
    },
    /// A thread reclaimed memory itself.
    Reclaim {
        /// The thread.
        tid: u32,
        /// When it began.
        since: u64,
    },
    /// A thread compacted memory itself.
    Compaction {
        /// The thread.
        tid: u32,
        /// When it began.
        since: u64,
    },
    /// A thread waited for the lock of its address space.
    MmapLock {
        /// The thread.
        tid: u32,
        /// When it began.
        since: u64,
    },
    /// A CPU's clock was changed.
    Frequency {
        /// Of which.
        of: u32,
        /// To what.
        khz: u32,
        /// From what; `None` where nothing was recorded of it before.
        before: Option<u32>,
    },
    /// The hypervisor had let something else have the CPU.
    Steal {
        /// How long, in nanoseconds.
        ns: u64,
        /// It was after this moment, when the hypervisor was asked before. What is recorded does not ask
        /// for the next 10 µs.
        since: u64,
    },
}

impl What {
    /// Whether it says how things stand from then on: who runs, whether the CPU idles, why it ticks.
    pub fn stands(&self) -> bool {
        matches!(self, Self::Switch { .. } | Self::Idle { .. } | Self::TickStop { .. })
    }

    /// Whether it says something of other CPUs than the one on which it was recorded.
    pub fn concerns_others(&self) -> bool {
        matches!(self, Self::IpiSent { .. } | Self::Frequency { .. })
    }
}

/// Interrupts of the local APIC that have no line in /proc/irq.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vector {
    /// The CPU's own timer.
    LocalTimer,
    /// Another CPU wants the scheduler to look.
    Reschedule,
    /// Other CPUs want a function called, several at once.
    CallFunction,
    /// Another CPU wants a function called.
    CallFunctionSingle,
    /// Work that was put off until interrupts were allowed.
    IrqWork,
    /// The CPU is too hot, or no longer.
    Thermal,
    /// The platform's own.
    Platform,
    /// An interrupt that went away before it could be answered.
    Spurious,
    /// The APIC met an error.
    Error,
}

impl Vector {
    /// In the order of `enum vector`, from 1.
    const ALL: [Self; 9] = [
        Self::LocalTimer,
        Self::Reschedule,
        Self::CallFunction,
        Self::CallFunctionSingle,
        Self::IrqWork,
        Self::Thermal,
        Self::Platform,
        Self::Spurious,
        Self::Error,
    ];
}

/// Sleeps that were asked for in one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sleeps {
    /// The system call.
    pub syscall: u32,
    /// How many.
    pub count: u64,
    /// How long, all together.
    pub ns: u64,
}

/// A process was stopped by its own runtime, mostly for its garbage collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// When it began to.
    pub start: u64,
    /// When it let the process run again.
    pub end: u64,
    /// The process.
    pub tgid: u32,
    /// The thread that let it run again.
    pub tid: u32,
}

impl Pause {
    /// `None` where there are fewer bytes than a pause has.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut b = Bytes(bytes, 0);
        let (start, end, tgid, tid) = (b.u64(), b.u64(), b.u32(), b.u32());
        (bytes.len() >= 24).then_some(Self { start, end, tgid, tid })
    }

    /// One that has not ended.
    pub(crate) fn open(tgid: &[u8], start: &[u8]) -> Option<Self> {
        let (tgid, start) = (tgid.try_into().ok()?, start.try_into().ok()?);
        let (tgid, start) = (u32::from_ne_bytes(tgid), u64::from_ne_bytes(start));
        Some(Self { start, end: u64::MAX, tgid, tid: 0 })
    }
}

/// Numbers from memory that a program wrote, in the machine's order.
pub(crate) struct Bytes<'a>(pub &'a [u8], pub usize);

impl Bytes<'_> {
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let end = (self.1 + N).min(self.0.len());
        if let Some(from) = self.0.get(self.1..end) {
            bytes[..from.len()].copy_from_slice(from);
        }
        self.1 += N;
        bytes
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }
}

impl Event {
    /// How long one is in the recorder.
    pub const BYTES: usize = EVENT;

    /// The event and its place in its CPU's recorder; `None` for a kind this version does not know.
    pub fn decode(bytes: &[u8; Self::BYTES], cpu: u32) -> (u32, Option<Self>) {
        let mut b = Bytes(bytes, 0);
        let (ts, seq, kind, flags, a, low, c) =
            (b.u64(), b.u32(), b.u16(), b.u16(), b.u32(), b.u32(), b.u64());
        let name = Name(b.take());
        let what = match kind {
            1 => What::Switch {
                from: a,
                state: c as u16,
                preempt: flags & 1 == 1,
                to: low,
                tgid: (c >> 32) as u32,
                prio: (c >> 16) as u16,
                comm: name,
            },
            2 => What::Irq { line: a, since: c, name },
            3 => What::Softirq { vector: a, since: c },
            4 => match Vector::ALL.get((a as usize).wrapping_sub(1)) {
                Some(&vector) => What::Vector { vector, since: c },
                None => return (seq, None),
            },
            5 => What::Nmi { ns: c },
            6 => What::Idle { state: (a != u32::MAX).then_some(a) },
            7 => {
                let due = u64::from(low) << 32 | u64::from(a);
                What::HrTimer { function: c, due: (due != 0).then_some(due) }
            }
            8 => What::Timer { function: c },
            9 => What::Work { function: c },
            10 => What::TlbFlush { reason: a, pages: c },
            11 => {
                What::IpiSent { to: (a != u32::MAX).then_some(a), by: low, function: c, comm: name }
            }
            12 => What::Fault { tid: a, address: c },
            13 => What::Syscall { tid: a, number: low, since: c },
            14 => What::TickStop { stopped: a == 1, dependency: low },
            15 => What::Reclaim { tid: a, since: c },
            16 => What::Compaction { tid: a, since: c },
            17 => What::MmapLock { tid: a, since: c },
            18 => What::FaultEnd { tid: a },
            20 => {
                let before = u32::try_from(c).ok().filter(|khz| *khz > 0);
                What::Frequency { of: a, khz: low, before }
            }
            19 => What::Steal { ns: u64::from(low) << 32 | u64::from(a), since: c },
            _ => return (seq, None),
        };
        (seq, Some(Self { ts, cpu, what }))
    }
}
