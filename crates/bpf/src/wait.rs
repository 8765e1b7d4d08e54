//! Waits of watched threads as the programs hand them over: `struct spike` of `include/wire.h`, read.

use serde::{Deserialize, Serialize};

use crate::wire::{Bytes, Name};

/// Frames of a stack that are kept.
const STACK: usize = 32;

/// Bytes of a wait.
const WAIT: usize = 176 + 3 * 8 * STACK;

/// A watched thread that was not running for longer than the threshold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// When it left its CPU; of a sleep that it had asked for, when it was to wake up.
    pub out_ts: u64,
    /// When somebody began to wake it; `None` where it could have run all the time, or unseen.
    pub waking_ts: Option<u64>,
    /// When it was put on the run queue.
    pub wakeup_ts: Option<u64>,
    /// When it ran again.
    pub in_ts: u64,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its name.
    pub comm: Name,
    /// Its priority as the kernel counts: below 100 is real-time.
    pub prio: u32,
    /// Its class (`SCHED_*`).
    pub policy: u32,
    /// The CPU it left.
    pub out_cpu: u32,
    /// The CPU it came back on.
    pub in_cpu: u32,
    /// Its state when it left (`TASK_*`).
    pub state: u32,
    /// How the wait began and ended.
    pub flags: WaitFlags,
    /// The system call it waited in.
    pub syscall: Option<u32>,
    /// Who ran after it.
    pub next: Task,
    /// Who woke it; the task that was interrupted, where an interrupt did.
    pub waker: Option<Task>,
    /// Where the waker ran.
    pub waker_cpu: u32,
    /// Whose run queue it was put on when it was woken.
    pub wakeup_cpu: u32,
    /// Its kernel stack while it waited, innermost first.
    pub kernel: Vec<u64>,
    /// The waker's kernel stack, innermost first.
    pub waker_kernel: Vec<u64>,
    /// The waker's user stack, by frame pointers, innermost first.
    pub waker_user: Vec<u64>,
    /// Its own registers in user space, where the kernel could tell.
    pub user: Option<UserRegs>,
}

/// A task and its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its thread.
    pub tid: u32,
    /// Its process; 0 where that was not kept.
    pub tgid: u32,
    /// Its name.
    pub comm: Name,
}

/// Where a thread was in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRegs {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub bp: u64,
}

/// How a wait began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitFlags {
    /// It could have run on.
    pub preempted: bool,
    /// It waited for a device.
    pub io: bool,
    /// Its control group had used up its quota.
    pub throttled: bool,
    /// The wake-up was not seen.
    pub no_wake: bool,
    /// It had asked to sleep: only the lateness counts.
    pub voluntary: bool,
    /// The waker was in a hard interrupt.
    pub in_irq: bool,
    /// The waker was in a softirq.
    pub in_softirq: bool,
    /// No wait: one interrupt had the thread's CPU all the while.
    pub stolen: bool,
}

impl Wait {
    /// How long one is as the programs hand it over.
    pub const BYTES: usize = WAIT;

    /// `None` where there are fewer bytes than a wait has.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < WAIT {
            return None;
        }
        let mut b = Bytes(bytes, 0);
        let times = [b.u64(), b.u64(), b.u64(), b.u64()];
        let (tid, tgid, out_cpu, in_cpu) = (b.u32(), b.u32(), b.u32(), b.u32());
        let (state, flags, syscall, prio, policy) = (b.u32(), b.u32(), b.u32(), b.u32(), b.u32());
        let (waker, waker_tgid, waker_cpu) = (b.u32(), b.u32(), b.u32());
        let (wakeup_cpu, next) = (b.u32(), b.u32());
        let sizes = [b.u32(), b.u32(), b.u32()];
        b.u32();
        let user = UserRegs { ip: b.u64(), sp: b.u64(), bp: b.u64() };
        let (comm, waker_comm, next_comm) =
            (Name::from(b.take()), Name::from(b.take()), Name::from(b.take()));
        let flag = |bit: u32| flags & bit != 0;
        Some(Self {
            out_ts: times[0],
            waking_ts: (times[1] != 0).then_some(times[1]),
            wakeup_ts: (times[2] != 0).then_some(times[2]),
            in_ts: times[3],
            tid,
            tgid,
            comm,
            prio,
            policy,
            out_cpu,
            in_cpu,
            state,
            flags: WaitFlags {
                preempted: flag(1),
                io: flag(2),
                throttled: flag(4),
                no_wake: flag(8),
                voluntary: flag(16),
                in_irq: flag(32),
                in_softirq: flag(64),
                stolen: flag(128),
            },
            syscall: (syscall < 512).then_some(syscall),
            next: Task { tid: next, tgid: 0, comm: next_comm },
            waker: (waker_tgid != 0 || times[1] != 0).then_some(Task {
                tid: waker,
                tgid: waker_tgid,
                comm: waker_comm,
            }),
            waker_cpu,
            wakeup_cpu,
            kernel: stack_of(&mut b, sizes[0]),
            waker_kernel: stack_of(&mut b, sizes[1]),
            waker_user: stack_of(&mut b, sizes[2]),
            user: (user.ip != 0).then_some(user),
        })
    }
}

/// A stack of `size` bytes; below 0, it is an error of the kernel's and there is none.
fn stack_of(bytes: &mut Bytes<'_>, size: u32) -> Vec<u64> {
    let all: Vec<u64> = (0..STACK).map(|_| bytes.u64()).collect();
    let frames = i32::from_ne_bytes(size.to_ne_bytes()).max(0).unsigned_abs() as usize / 8;
    all.into_iter().take(frames).collect()
}
