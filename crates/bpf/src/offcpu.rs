//! Where threads wait, summed in the kernel.

use std::fmt;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use quietcore_measure::Nanos;
use serde::Serialize;

use crate::stacks::{self, FIRST_OWN_COUNTER, Losses, Shelf, Stack};
use crate::watch::Watch;
use crate::wire::{Bytes, Name};
use crate::{BpfError, Health, Kernel, State, kernel, loader};

#[allow(
    warnings,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "written by libbpf-cargo"
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/offcpu.skel.rs"));
}
use skeleton::{OffcpuSkel, OffcpuSkelBuilder, OpenOffcpuSkel};

/// Every program and its tracepoint. Wake-ups come before switches, as in the recorder.
const PROGRAMS: &[(&str, &str)] = &[
    ("waking", "sched_waking"),
    ("syscall_exit", "sys_exit"),
    ("switch4", "sched_switch"),
    ("switch3", "sched_switch"),
];

/// Entries of the histogram.
const BUCKETS: u32 = 40;

/// How a wait began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// It could have run on.
    Preempted,
    /// It waits for something and takes signals.
    Blocked,
    /// It waits for something, as a disk, and takes none but those that kill.
    Uninterruptible,
    /// Stopped, traced, dead, or a kernel thread without work.
    Other,
}

impl WaitKind {
    /// In the order of `enum kind`.
    pub const ALL: [Self; 4] = [Self::Preempted, Self::Blocked, Self::Uninterruptible, Self::Other];

    /// The name used on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preempted => "preempted",
            Self::Blocked => "blocked",
            Self::Uninterruptible => "uninterruptible",
            Self::Other => "other",
        }
    }
}

/// What is summed.
#[derive(Clone, Debug)]
pub struct OffCpuSettings {
    /// Whose waits.
    pub watch: Watch,
    /// Shorter ones do not count, and their stacks are not walked.
    pub min: Nanos,
    /// Which kinds count.
    pub kinds: Vec<WaitKind>,
    /// Whether kernel stacks are taken.
    pub kernel: bool,
    /// Whether user stacks are taken, by frame pointers.
    pub user: bool,
    /// Whether the stacks of those who end waits are taken.
    pub wakers: bool,
}

/// All waits of one thread and kind with the same stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its name when the first of them ended.
    pub comm: Name,
    /// How they began.
    pub kind: WaitKind,
    /// Its kernel stack.
    pub kernel: Stack,
    /// Its user stack.
    pub user: Stack,
    /// The thread that ended them; 0 where that was not asked for, or unseen.
    pub waker: u32,
    /// That one's kernel stack.
    pub waker_kernel: Stack,
    /// That one's user stack.
    pub waker_user: Stack,
    /// How many.
    pub count: u64,
    /// How long, all together.
    pub total: Nanos,
    /// The longest.
    pub max: Nanos,
}

/// Waits of about the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The shortest that belongs here, in microseconds; the longest is less than twice that.
    pub from_us: u64,
    /// How many.
    pub count: u64,
    /// How long, all together.
    pub total: Nanos,
}

/// What the programs counted, since they were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OffCpuCounts {
    /// How often watched threads left their CPUs.
    pub left: u64,
    /// How often they came back from a wait of a kind that counts.
    pub came: u64,
    /// Those of them that were long enough.
    pub long: u64,
    /// Kernel stacks that were walked; the others were recognised.
    pub walked: u64,
    /// What was lost.
    pub losses: Losses,
}

/// The programs at work. Dropping it detaches them; so does the kernel when the process ends.
pub struct OffCpu {
    links: Vec<Link>,
    skeleton: OffcpuSkel<'static>,
    health: Vec<Health>,
    attached_in: Duration,
}

impl fmt::Debug for OffCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffCpu").field("health", &self.health).finish_non_exhaustive()
    }
}

impl OffCpu {
    /// Loads and attaches what works here.
    ///
    /// # Errors
    /// [`BpfError`] where waits cannot be summed at all.
    pub fn start(settings: &OffCpuSettings) -> Result<Self, BpfError> {
        kernel::allowed()?;
        let kernel = Kernel::read()?;
        let essential = |program: &str| program.starts_with("switch");
        let (mut skeleton, broken) =
            loader::load(essential, |broken| load(settings, &kernel, broken))?;
        settings.watch.tell(&skeleton.maps.watched)?;
        let programs = PROGRAMS.iter().map(|&(program, tracepoint)| {
            (program, left_out(program, tracepoint, settings, &kernel))
        });
        let begin = Instant::now();
        let (links, health) = loader::attach(skeleton.object_mut(), programs, essential, &broken)?;
        Ok(Self { links, skeleton, health, attached_in: begin.elapsed() })
    }

    /// Which programs work.
    pub fn health(&self) -> &[Health] {
        &self.health
    }

    /// How long attaching took.
    pub fn attached_in(&self) -> Nanos {
        Nanos(u64::try_from(self.attached_in.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Ends the measurement; what was summed can still be read.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Every sum, the most time first.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the sums cannot be read.
    pub fn waits(&self) -> Result<Vec<Waited>, BpfError> {
        let doing = |error| BpfError::Libbpf { doing: "reading the sums", error };
        let mut shelf = Shelf::new(&self.skeleton.maps.stacks);
        let mut waits = Vec::new();
        for key in self.skeleton.maps.sums.keys() {
            let Some(sum) = self.skeleton.maps.sums.lookup(&key, MapFlags::ANY).map_err(doing)?
            else {
                continue;
            };
            let (mut key, mut sum) = (Bytes(&key, 0), Bytes(&sum, 0));
            waits.push(Waited {
                tid: key.u32(),
                tgid: key.u32(),
                kind: *WaitKind::ALL.get(key.u32() as usize).unwrap_or(&WaitKind::Other),
                waker: key.u32(),
                kernel: shelf.stack(key.u64())?,
                user: shelf.stack(key.u64())?,
                waker_kernel: shelf.stack(key.u64())?,
                waker_user: shelf.stack(key.u64())?,
                count: sum.u64(),
                total: Nanos(sum.u64()),
                max: Nanos(sum.u64()),
                comm: Name::from(sum.take()),
            });
        }
        waits.sort_by_key(|waited| std::cmp::Reverse(waited.total));
        Ok(waits)
    }

    /// The waits that counted by their length, the shortest first; only lengths that occurred.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the histogram cannot be read.
    pub fn histogram(&self) -> Result<Vec<Bucket>, BpfError> {
        let mut buckets = Vec::new();
        for n in 0..BUCKETS {
            if let [count, ns] = loader::sums(&self.skeleton.maps.histogram, n)?[..] {
                let from_us = if n == 0 { 0 } else { 1 << (n - 1) };
                buckets.push(Bucket { from_us, count, total: Nanos(ns) });
            }
        }
        buckets.retain(|bucket| bucket.count > 0);
        Ok(buckets)
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the counters cannot be read.
    pub fn counts(&self) -> Result<OffCpuCounts, BpfError> {
        let counters = &self.skeleton.maps.counters;
        let own = |which| stacks::counter(counters, FIRST_OWN_COUNTER + which);
        let losses = Losses::read(counters)?;
        Ok(OffCpuCounts { left: own(0)?, came: own(1)?, long: own(2)?, walked: own(3)?, losses })
    }
}

/// Why a program is not loaded, before the kernel is asked to.
fn left_out(
    program: &str,
    tracepoint: &str,
    settings: &OffCpuSettings,
    kernel: &Kernel,
) -> Option<State> {
    let not = |why: &str| Some(State::NotApplicable(why.into()));
    match (program, kernel.tracepoint(tracepoint)) {
        (_, None) => Some(State::Unsupported(format!("no tracepoint {tracepoint} here"))),
        ("waking", _) if !settings.wakers => not("not asked for"),
        ("syscall_exit", _) if !settings.user => not("not asked for"),
        ("syscall_exit", _) if !can_defer(kernel) => {
            Some(State::Unsupported("no bpf_task_pt_regs (5.15): stacks are walked early".into()))
        }
        ("switch4", Some(..4)) | ("switch3", Some(4..)) => {
            not("the other variant serves this kernel")
        }
        _ => None,
    }
}

/// Whether it can be told that a thread is in a system call.
fn can_defer(kernel: &Kernel) -> bool {
    kernel.helper("task_pt_regs") && kernel.tracepoint("sys_exit").is_some()
}

fn load(
    settings: &OffCpuSettings,
    kernel: &Kernel,
    broken: &loader::Broken,
) -> Result<OffcpuSkel<'static>, libbpf_rs::Error> {
    // The skeleton borrows this little from whoever opens it, and lives as long as it likes.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = OffcpuSkelBuilder::default().open(storage)?;
    set_up(&mut open, settings, kernel, broken)?;
    for &(program, tracepoint) in PROGRAMS {
        let wanted = left_out(program, tracepoint, settings, kernel).is_none();
        loader::autoload(open.open_object_mut(), program, wanted && !broken.contains_key(program));
    }
    open.load()
}

fn set_up(
    open: &mut OpenOffcpuSkel<'static>,
    settings: &OffCpuSettings,
    kernel: &Kernel,
    broken: &loader::Broken,
) -> Result<(), libbpf_rs::Error> {
    let storage = kernel.task_storage();
    open.maps.offs.set_autocreate(storage)?;
    open.maps.offs_by_tid.set_autocreate(!storage)?;
    let Some(constants) = open.maps.rodata_data.as_deref_mut() else { return Ok(()) };
    constants.own_tgid = std::process::id();
    constants.only_tid = settings.watch.only_thread();
    constants.only_tgid = settings.watch.only_process();
    constants.by_list = settings.watch.is_by_task();
    constants.by_cpu = settings.watch.is_by_cpu();
    constants.min_ns = settings.min.0;
    constants.kinds = settings.kinds.iter().fold(0, |bits, &kind| bits | 1 << kind as u32);
    constants.want_kernel = settings.kernel;
    constants.want_user = settings.user;
    constants.by_hash = !storage;
    constants.has_task_stack = kernel.helper("get_task_stack");
    constants.defer = can_defer(kernel) && !broken.contains_key("syscall_exit");
    Ok(())
}
