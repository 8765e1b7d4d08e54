//! Where threads run: samples, summed in the kernel.

use std::fmt;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::perf_event_attr;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use quietcore_measure::CpuSet;
use serde::Serialize;

use crate::stacks::{self, FIRST_OWN_COUNTER, Losses, Shelf, Stack};
use crate::watch::Watch;
use crate::wire::{Bytes, Name};
use crate::{BpfError, Kernel, kernel, loader};

#[allow(
    warnings,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "written by libbpf-cargo"
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/profile.skel.rs"));
}
use skeleton::{ProfileSkel, ProfileSkelBuilder};

/// What makes a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleEvent {
    /// Time on the CPU, by the kernel's timer.
    CpuClock,
    /// Clock cycles.
    Cycles,
    /// Misses of the last-level cache.
    CacheMisses,
    /// Branches that went another way than foreseen.
    BranchMisses,
    /// Reads whose address translation had to be looked up.
    DtlbLoadMisses,
}

impl SampleEvent {
    /// Every event.
    pub const ALL: [Self; 5] =
        [Self::CpuClock, Self::Cycles, Self::CacheMisses, Self::BranchMisses, Self::DtlbLoadMisses];

    /// The name `perf list` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuClock => "cpu-clock",
            Self::Cycles => "cycles",
            Self::CacheMisses => "cache-misses",
            Self::BranchMisses => "branch-misses",
            Self::DtlbLoadMisses => "dTLB-load-misses",
        }
    }

    /// `type` and `config` of the kernel's `perf_event_attr`.
    fn code(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        const CACHE: u32 = 3;
        match self {
            Self::CpuClock => (SOFTWARE, 0),
            Self::Cycles => (HARDWARE, 0),
            Self::CacheMisses => (HARDWARE, 3),
            Self::BranchMisses => (HARDWARE, 5),
            // The data TLB, reading, missed.
            Self::DtlbLoadMisses => (CACHE, 3 | 1 << 16),
        }
    }
}

/// What is sampled.
#[derive(Clone, Debug)]
pub struct ProfileSettings {
    /// Whom.
    pub watch: Watch,
    /// On which CPUs; others are not touched.
    pub cpus: CpuSet,
    /// How often per second and CPU.
    pub frequency: u64,
    /// By what.
    pub event: SampleEvent,
    /// Whether kernel stacks are taken.
    pub kernel: bool,
    /// Whether user stacks are taken, by frame pointers.
    pub user: bool,
}

/// All samples of one thread with the same stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its name at the first of them.
    pub comm: Name,
    /// Its kernel stack.
    pub kernel: Stack,
    /// Its user stack.
    pub user: Stack,
    /// How many.
    pub count: u64,
}

/// What the program counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProfileCounts {
    /// Samples of watched threads.
    pub samples: u64,
    /// Samples of idle CPUs, which are not kept.
    pub idle: u64,
    /// Samples of others, which are not kept.
    pub others: u64,
    /// What was lost.
    pub losses: Losses,
}

/// The program at work. Dropping it detaches it; so does the kernel when the process ends.
pub struct Profile {
    links: Vec<Link>,
    skeleton: ProfileSkel<'static>,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("cpus", &self.links.len()).finish_non_exhaustive()
    }
}

impl Profile {
    /// Loads the program and begins to sample.
    ///
    /// # Errors
    /// [`BpfError`]; [`BpfError::NoEvent`] where the event cannot be had here.
    pub fn start(settings: &ProfileSettings) -> Result<Self, BpfError> {
        kernel::allowed()?;
        Kernel::read()?;
        let (skeleton, _) = loader::load(|_| true, |_| load(settings))?;
        settings.watch.tell(&skeleton.maps.watched)?;
        let mut profile = Self { links: Vec::new(), skeleton };
        for cpu in settings.cpus.iter() {
            let event = open_event(settings, cpu)?;
            let link = profile.skeleton.progs.sample.attach_perf_event(event.as_raw_fd());
            let doing = "attaching to the event";
            profile.links.push(link.map_err(|error| BpfError::Libbpf { doing, error })?);
            // The link closes it, and closing it ends it.
            let _ = event.into_raw_fd();
        }
        Ok(profile)
    }

    /// Ends the measurement; what was summed can still be read.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Every sum, the most samples first.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the sums cannot be read.
    pub fn samples(&self) -> Result<Vec<Sampled>, BpfError> {
        let doing = |error| BpfError::Libbpf { doing: "reading the sums", error };
        let mut shelf = Shelf::new(&self.skeleton.maps.stacks);
        let mut samples = Vec::new();
        for key in self.skeleton.maps.sums.keys() {
            let sum = self.skeleton.maps.sums.lookup(&key, MapFlags::ANY).map_err(doing)?;
            let Some(sum) = sum else { continue };
            let (mut key, mut sum) = (Bytes(&key, 0), Bytes(&sum, 0));
            samples.push(Sampled {
                tid: key.u32(),
                tgid: key.u32(),
                kernel: shelf.stack(key.u64())?,
                user: shelf.stack(key.u64())?,
                count: sum.u64(),
                comm: Name::from(sum.take()),
            });
        }
        samples.sort_by_key(|sampled| std::cmp::Reverse(sampled.count));
        Ok(samples)
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the counters cannot be read.
    pub fn counts(&self) -> Result<ProfileCounts, BpfError> {
        let counters = &self.skeleton.maps.counters;
        let own = |which| stacks::counter(counters, FIRST_OWN_COUNTER + which);
        let losses = Losses::read(counters)?;
        Ok(ProfileCounts { samples: own(0)?, idle: own(1)?, others: own(2)?, losses })
    }
}

fn load(settings: &ProfileSettings) -> Result<ProfileSkel<'static>, libbpf_rs::Error> {
    // The skeleton borrows this little from whoever opens it, and lives as long as it likes.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = ProfileSkelBuilder::default().open(storage)?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.own_tgid = std::process::id();
        constants.only_tid = settings.watch.only_thread();
        constants.only_tgid = settings.watch.only_process();
        constants.by_list = settings.watch.is_by_task();
        constants.by_cpu = settings.watch.is_by_cpu();
        constants.want_kernel = settings.kernel;
        constants.want_user = settings.user;
    }
    open.load()
}

/// A CPU's event, which is not yet counting for anybody.
fn open_event(settings: &ProfileSettings, cpu: usize) -> Result<OwnedFd, BpfError> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let (kind, config) = settings.event.code();
    let mut attr = perf_event_attr {
        type_: kind,
        config,
        size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or_default(),
        ..perf_event_attr::default()
    };
    attr.set_freq(1);
    attr.__bindgen_anon_1.sample_freq = settings.frequency;
    // SAFETY: the attribute is valid for the call, its size is in it, and the kernel only reads it.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu, -1, CLOSE_ON_EXEC)
    };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
                BpfError::NoEvent { event: settings.event.name() }
            }
            Some(libc::EACCES | libc::EPERM) => BpfError::Privilege(error.to_string()),
            _ => BpfError::Event { event: settings.event.name(), cpu, error },
        });
    }
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) })
}
