//! How long a function of a process takes, every time: a probe where it begins and one where it
//! returns.

use std::cell::RefCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder, UprobeOpts,
};
use quietcore_measure::{Hist, HistConfig, Nanos};

use crate::{BpfError, Kernel, UserRegs, kernel, loader};

#[allow(
    warnings,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "written by libbpf-cargo"
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/function.skel.rs"));
}
use skeleton::{FunctionSkel, FunctionSkelBuilder};

/// A function of a running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The process.
    pub pid: u32,
    /// The file that holds its code, as this process can open it.
    pub path: PathBuf,
    /// Where the function begins in the file, in bytes.
    pub offset: u64,
}

/// One call, the outermost where it called itself. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub start_ns: u64,
    /// When it returned.
    pub end_ns: u64,
    /// The thread.
    pub tid: u32,
    /// The CPU on which it returned.
    pub cpu: u32,
    /// It was handed over whatever its length.
    pub sampled: bool,
}

impl Span {
    /// Its length in nanoseconds.
    pub fn len_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let u64_at = |at| bytes.get(at..)?.first_chunk().map(|b| u64::from_ne_bytes(*b));
        let u32_at = |at| bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b));
        let (start_ns, end_ns) = (u64_at(0)?, u64_at(8)?);
        Some(Self {
            start_ns,
            end_ns,
            tid: u32_at(16)?,
            cpu: u32_at(20)?,
            sampled: u32_at(24)? != 0,
        })
    }
}

/// Where a thread was in user space while one blocked in a span, to be unwound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPath {
    /// The thread that waited.
    pub tid: u32,
    /// When it left its CPU.
    pub out_ts: u64,
    /// Whether this is not its own, but the path of the thread that woke it.
    pub of_waker: bool,
    /// Registers.
    pub regs: UserRegs,
    /// The stack from its pointer on, as far as it was copied.
    pub stack: Vec<u8>,
}

impl UserPath {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let u64_at = |at| bytes.get(at..)?.first_chunk().map(|b| u64::from_ne_bytes(*b));
        let u32_at = |at| bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b));
        let size = usize::try_from(u32_at(40)?).ok()?;
        Some(Self {
            out_ts: u64_at(0)?,
            regs: UserRegs { ip: u64_at(8)?, sp: u64_at(16)?, bp: u64_at(24)? },
            tid: u32_at(32)?,
            of_waker: u32_at(36)? != 0,
            stack: bytes.get(48..48 + size)?.to_vec(),
        })
    }
}

/// What was counted since the probes were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Handed over.
    pub sent: u64,
    /// Lost on the way, though counted in the histogram.
    pub dropped: u64,
    /// Calls that never returned: left by longjmp or an exception.
    pub abandoned: u64,
    /// Paths lost on the way.
    pub paths_dropped: u64,
}

/// The probes at work. Dropping it detaches them; so does the kernel when the process ends.
pub struct FunctionProbe {
    received: Rc<RefCell<Vec<Span>>>,
    walked: Rc<RefCell<Vec<UserPath>>>,
    ring: RingBuffer<'static>,
    _links: Vec<Link>,
    skeleton: FunctionSkel<'static>,
    config: HistConfig,
}

impl fmt::Debug for FunctionProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionProbe").finish_non_exhaustive()
    }
}

impl FunctionProbe {
    /// Attaches to a function. One call in `one_in` is handed over whatever its length (0: none).
    /// Of waits within it that are at least as long as `paths` says, the paths are handed over, too,
    /// where the kernel can tell (x86, 5.15).
    ///
    /// # Errors
    /// [`BpfError`] where that is not possible.
    pub fn start(target: &Target, one_in: u32, paths: Option<Nanos>) -> Result<Self, BpfError> {
        kernel::allowed()?;
        loader::listen();
        let config = HistConfig::default();
        let doing = |doing| move |error| BpfError::Libbpf { doing, error };
        let with_paths = paths.is_some()
            && cfg!(target_arch = "x86_64")
            && Kernel::read()?.helper("task_pt_regs");
        let waits = paths.filter(|_| with_paths);
        let skeleton = load(target, one_in, waits, config).map_err(refused)?;
        let received: Rc<RefCell<Vec<Span>>> = Rc::default();
        let sink = Rc::clone(&received);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skeleton.maps.spans, move |bytes| {
                sink.borrow_mut().extend(Span::decode(bytes));
                0
            })
            .map_err(doing("the buffer of spans"))?;
        let walked: Rc<RefCell<Vec<UserPath>>> = Rc::default();
        let sink = Rc::clone(&walked);
        builder
            .add(&skeleton.maps.paths, move |bytes| {
                sink.borrow_mut().extend(UserPath::decode(bytes));
                0
            })
            .map_err(doing("the buffer of paths"))?;
        let ring = builder.build().map_err(doing("the buffer of spans"))?;

        let pid = i32::try_from(target.pid).unwrap_or(i32::MAX);
        let offset = usize::try_from(target.offset).unwrap_or(usize::MAX);
        let options = |retprobe| UprobeOpts { retprobe, ..UprobeOpts::default() };
        // The end first: a call that has only begun is no span, one without a beginning is none either.
        let leave = skeleton
            .progs
            .leave
            .attach_uprobe_with_opts(pid, &target.path, offset, options(true))
            .map_err(doing("attaching to the function's return"))?;
        let enter = skeleton
            .progs
            .enter
            .attach_uprobe_with_opts(pid, &target.path, offset, options(false))
            .map_err(doing("attaching to the function"))?;
        let mut links = vec![leave, enter];
        if with_paths {
            let doing = doing("attaching to the scheduler");
            links.push(skeleton.progs.wakes.attach().map_err(doing)?);
            links.push(skeleton.progs.blocks.attach().map_err(doing)?);
        }
        Ok(Self { received, walked, ring, _links: links, skeleton, config })
    }

    /// The calls that were handed over since the last time, in the order in which they returned.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the buffer cannot be read.
    pub fn spans(&mut self) -> Result<Vec<Span>, BpfError> {
        let doing = "the buffer of spans";
        self.ring.consume().map_err(|error| BpfError::Libbpf { doing, error })?;
        let mut spans = self.received.take();
        spans.sort_by_key(|span| span.end_ns);
        Ok(spans)
    }

    /// The paths of waits that came since the last call of [`FunctionProbe::spans`].
    pub fn paths(&mut self) -> Vec<UserPath> {
        self.walked.take()
    }

    /// From now on only calls at least this long are handed over, besides the samples.
    pub fn keep_over(&mut self, threshold_ns: u64) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.threshold_ns = threshold_ns;
        }
    }

    /// The lengths of all calls so far, in nanoseconds.
    pub fn histogram(&self) -> Hist {
        let counts = self.skeleton.maps.bss_data.as_deref().map(|bss| &bss.histogram[..]);
        Hist::from_counts(self.config, counts.unwrap_or_default())
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where it cannot be read.
    pub fn counts(&self) -> Result<SpanCounts, BpfError> {
        let of = |which| sum(&self.skeleton.maps.counters, which);
        Ok(SpanCounts { sent: of(0)?, dropped: of(1)?, abandoned: of(2)?, paths_dropped: of(3)? })
    }
}

fn load(
    target: &Target,
    one_in: u32,
    paths: Option<Nanos>,
    config: HistConfig,
) -> Result<FunctionSkel<'static>, libbpf_rs::Error> {
    // The skeleton borrows this little from whoever opens it, and lives as long as it likes.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = FunctionSkelBuilder::default().open(storage)?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.only_tgid = target.pid;
        constants.one_in = one_in;
        constants.min_wait_ns = paths.unwrap_or_default().0;
        constants.bits = u32::from(config.precision_bits);
    }
    for program in ["blocks", "wakes"] {
        loader::autoload(open.open_object_mut(), program, paths.is_some());
    }
    open.load()
}

fn refused(error: libbpf_rs::Error) -> BpfError {
    match (error.kind(), loader::refused()) {
        (ErrorKind::PermissionDenied, _) => BpfError::Privilege(error.to_string()),
        (_, Some((program, why))) => BpfError::Program { program, why },
        _ => BpfError::Libbpf { doing: "loading the probes of a function", error },
    }
}

/// A per-CPU number, summed over all CPUs.
fn sum(map: &impl MapCore, key: u32) -> Result<u64, BpfError> {
    let doing = "reading counters";
    let found = map
        .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| BpfError::Libbpf { doing, error })?;
    let words = found.iter().flatten().filter_map(|cpu| cpu.first_chunk());
    Ok(words.map(|bytes| u64::from_ne_bytes(*bytes)).sum())
}

/// The bytes with which a function begins.
pub(crate) fn first_bytes(path: &Path, offset: u64) -> std::io::Result<[u8; 8]> {
    use std::os::unix::fs::FileExt;
    let mut bytes = [0; 8];
    std::fs::File::open(path)?.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
