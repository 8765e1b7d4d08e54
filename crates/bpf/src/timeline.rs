//! The flight recorder: what happened on every CPU of late, and which watched thread had to wait.

use std::cell::RefCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder};
use quietcore_measure::Nanos;
use serde::Serialize;

use crate::faults::FaultEnds;
use crate::histogram::{Histogram, Histograms};
use crate::ring::{Batch, Rings};
use crate::runtime::{self, Runtime};
use crate::sets::{FAULT_END, PROGRAMS, Set, left_out};
use crate::wait::Wait;
use crate::watch::Watch;
use crate::wire::{Pause, Sleeps};
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
    include!(concat!(env!("OUT_DIR"), "/timeline.skel.rs"));
}
use skeleton::{OpenTimelineSkel, TimelineSkel, TimelineSkelBuilder};

/// System calls that the programs can tell apart.
const SYSCALLS: usize = 512;

/// How to record.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose waits are spikes.
    pub watch: Watch,
    /// What is a spike.
    pub threshold: Nanos,
    /// What is recorded; [`Set::Sched`] is anyway.
    pub sets: Vec<Set>,
    /// Events that are kept per CPU, a power of two; 48 bytes each.
    pub slots: u32,
    /// Room for waits that were not fetched yet, in bytes: a power of two, about a KiB each.
    pub room: u32,
    /// System calls in which a sleep is asked for, so that only waking up late is a spike. With
    /// any, so are all sleeps of the kernel's own threads: they wait for work.
    pub voluntary: Vec<u32>,
    /// System calls in which a sleep was asked for if an interrupt ended it: their time was up. That
    /// it was an interrupt is known with [`Set::Irq`].
    pub timed: Vec<u32>,
}

impl Settings {
    /// What answers most questions at the least cost, for a watch and a threshold.
    pub fn new(watch: Watch, threshold: Nanos) -> Self {
        Self {
            watch,
            threshold,
            sets: vec![Set::Sched, Set::Idle, Set::Irq],
            slots: 16_384,
            room: 1 << 20,
            voluntary: Vec::new(),
            timed: Vec::new(),
        }
    }
}

/// What the programs counted, since they were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Context switches of all CPUs.
    pub switches: u64,
    /// Waits of watched threads, of any length.
    pub waits: u64,
    /// Waits over the threshold that were handed over.
    pub sent: u64,
    /// Waits over the threshold that were lost, for want of room.
    pub dropped: u64,
    /// Waits whose end nobody was seen to cause: they began before the programs were attached.
    pub unseen_wakes: u64,
    /// Sleeps that were asked for.
    pub voluntary_sleeps: u64,
}

/// What the programs sent and nobody has asked for yet.
#[derive(Debug, Default)]
struct Received {
    waits: Vec<Wait>,
    pauses: Vec<Pause>,
}

/// The recorder at work. Dropping it detaches everything; so does the kernel when the process ends.
pub struct Timeline {
    received: Rc<RefCell<Received>>,
    ring: RingBuffer<'static>,
    rings: Rings,
    links: Vec<Link>,
    _fault_ends: Option<FaultEnds>,
    skeleton: TimelineSkel<'static>,
    health: Vec<Health>,
    attached_in: Duration,
    cpus: u32,
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline").field("health", &self.health).finish_non_exhaustive()
    }
}

impl Timeline {
    /// Whether this host has what recording rests on, asked without loading anything.
    ///
    /// # Errors
    /// [`BpfError`] that says what is missing.
    pub fn possible() -> Result<(), BpfError> {
        kernel::allowed()?;
        Kernel::read().map(drop)
    }

    /// Loads and attaches what works here.
    ///
    /// # Errors
    /// [`BpfError`] where waits cannot be recorded at all; [`Timeline::health`] says what else
    /// does not work.
    pub fn start(settings: &Settings) -> Result<Self, BpfError> {
        kernel::allowed()?;
        let kernel = Kernel::read()?;
        let cpus = loader::possible_cpus()?;
        let essential = |program: &str| {
            PROGRAMS.iter().any(|&(name, _, set)| name == program && set == Set::Sched)
        };
        let (mut skeleton, broken) =
            loader::load(essential, |broken| load(settings, &kernel, cpus, broken))?;
        settings.watch.tell(&skeleton.maps.watched)?;
        let doing = |doing| move |error| BpfError::Libbpf { doing, error };

        let received: Rc<RefCell<Received>> = Rc::default();
        let (waits, pauses) = (Rc::clone(&received), Rc::clone(&received));
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skeleton.maps.spikes, move |bytes| {
                waits.borrow_mut().waits.extend(Wait::decode(bytes));
                0
            })
            .and_then(|builder| {
                builder.add(&skeleton.maps.pauses, move |bytes| {
                    pauses.borrow_mut().pauses.extend(Pause::decode(bytes));
                    0
                })
            })
            .map_err(doing("the buffer of spikes"))?;
        let ring = builder.build().map_err(doing("the buffer of spikes"))?;
        let rings = Rings::map(
            &skeleton.maps.events.as_fd(),
            &skeleton.maps.cpus.as_fd(),
            settings.slots,
            cpus,
        )
        .map_err(|error| BpfError::Map { map: "the recorder", error })?;

        let begin = Instant::now();
        let programs = PROGRAMS.iter().map(|&(program, tracepoint, set)| {
            (program, left_out(program, tracepoint, set, &settings.sets, &kernel))
        });
        let (links, mut health) =
            loader::attach(skeleton.object_mut(), programs, essential, &broken)?;
        let (fault_ends, state) = match broken.get(FAULT_END) {
            _ if !settings.sets.contains(&Set::Fault) => {
                (None, State::NotApplicable("not asked for".into()))
            }
            Some(why) => (None, State::Broken(why.clone())),
            None => match FaultEnds::attach(&skeleton.progs.fault_end, cpus) {
                Ok(attached) => (Some(attached), State::Ok),
                Err(why) => (None, State::Broken(why)),
            },
        };
        health.push(Health { program: FAULT_END, state });
        let attached_in = begin.elapsed();
        Ok(Self {
            received,
            ring,
            rings,
            links,
            _fault_ends: fault_ends,
            skeleton,
            health,
            attached_in,
            cpus,
        })
    }

    /// Which programs work.
    pub fn health(&self) -> &[Health] {
        &self.health
    }

    /// The sets of which every program works, so that what no event shows did not happen.
    pub fn sets(&self) -> Vec<Set> {
        let works = |&(program, _, set): &(&str, &str, Set)| {
            let mut all = self.health.iter();
            all.find(|health| health.program == program).is_some_and(|health| match health.state {
                State::Ok => true,
                // A CPU without the tracepoints of a vector does not have that vector.
                State::Unsupported(_) => set == Set::Irq,
                State::NotApplicable(_) => set == Set::Sched,
                State::Broken(_) => false,
            })
        };
        let of = |set: Set| PROGRAMS.iter().filter(move |program| program.2 == set);
        Set::ALL.into_iter().filter(|&set| of(set).all(works)).collect()
    }

    /// How long attaching took.
    pub fn attached_in(&self) -> Nanos {
        Nanos(u64::try_from(self.attached_in.as_nanos()).unwrap_or(u64::MAX))
    }

    /// How many CPUs are recorded, from 0 on.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// The waits over the threshold since the last call, in the order in which they ended.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the buffer cannot be read.
    pub fn waits(&mut self) -> Result<Vec<Wait>, BpfError> {
        let doing = "the buffer of spikes";
        self.ring.consume().map_err(|error| BpfError::Libbpf { doing, error })?;
        let mut waits = std::mem::take(&mut self.received.borrow_mut().waits);
        waits.sort_by_key(|wait| wait.in_ts);
        Ok(waits)
    }

    /// Watches the runtimes of a process that can stop all of it, a JVM's or Go's, and says which
    /// there are. Costs the process a trap at the beginning and the end of each stop.
    ///
    /// # Errors
    /// [`BpfError::Program`] where the process cannot be read or the probes not be attached.
    pub fn watch_pauses(&mut self, pid: u32) -> Result<Vec<Runtime>, BpfError> {
        let failed = |why: String| BpfError::Program { program: "pause".into(), why };
        let stops = runtime::of_process(pid)
            .map_err(|error| failed(format!("the maps of process {pid}: {error}")))?;
        for stop in &stops {
            for (program, offset) in [
                (&self.skeleton.progs.pause_end, stop.end),
                (&self.skeleton.progs.pause_begin, stop.begin),
            ] {
                let pid = i32::try_from(pid).unwrap_or(-1);
                let link = program
                    .attach_uprobe(false, pid, &stop.file, offset as usize)
                    .map_err(|error| failed(format!("{}: {error}", stop.file.display())))?;
                self.links.push(link);
            }
        }
        Ok(stops.into_iter().map(|stop| stop.runtime).collect())
    }

    /// The stops of watched runtimes since the last call, as far as [`Timeline::waits`] has fetched
    /// them, and those that have not ended yet, which come again when they have.
    pub fn pauses(&mut self) -> Vec<Pause> {
        let mut pauses = std::mem::take(&mut self.received.borrow_mut().pauses);
        let stopped = &self.skeleton.maps.stopped;
        pauses.extend(stopped.keys().filter_map(|key| {
            let start = stopped.lookup(&key, MapFlags::ANY).ok()??;
            Pause::open(&key, &start)
        }));
        pauses
    }

    /// What a CPU recorded between two moments of CLOCK_MONOTONIC and a little beyond, after what says
    /// how things stood at the first. [`Batch::lost`] is not 0 where something may have been
    /// overwritten.
    pub fn events(&self, cpu: u32, from_ns: u64, until_ns: u64) -> Batch {
        self.rings.between(cpu, from_ns, until_ns)
    }

    /// What a CPU recorded after event number `last`: for those who want all of it, and ask often
    /// enough that nothing is overwritten meanwhile.
    pub fn events_after(&self, cpu: u32, last: u64) -> Batch {
        self.rings.after(cpu, last)
    }

    /// Whether the hypervisor tells a CPU what it takes of it, as KVM does: then what no
    /// [`crate::What::Steal`] shows it did not take. Known as soon as anything was recorded there.
    pub fn hears_of_steal(&self, cpu: u32) -> bool {
        self.rings.hears_of_steal(cpu)
    }

    /// How many events a CPU has recorded, overwritten ones included.
    pub fn recorded(&self, cpu: u32) -> u64 {
        self.rings.head(cpu)
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the counters cannot be read.
    pub fn counts(&self) -> Result<Counts, BpfError> {
        let of = |which: u32| sum(&self.skeleton.maps.counters, which);
        Ok(Counts {
            switches: of(0)?,
            waits: of(1)?,
            sent: of(2)?,
            dropped: of(3)?,
            unseen_wakes: of(4)?,
            voluntary_sleeps: of(5)?,
        })
    }

    /// How long the watched threads have waited, waits below the threshold included.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the counters cannot be read.
    pub fn histograms(&self) -> Result<Histograms, BpfError> {
        let one = |which: u32| -> Result<Histogram, BpfError> {
            let maps = &self.skeleton.maps;
            let first = which * Histogram::BUCKETS;
            let buckets = first..first + Histogram::BUCKETS;
            let counts = buckets.map(|bucket| sum(&maps.histograms, bucket));
            Ok(Histogram {
                counts: counts.collect::<Result<_, _>>()?,
                sum_ns: sum(&maps.histogram_sums, which)?,
            })
        };
        Ok(Histograms { blocked: one(0)?, run_queue: one(1)? })
    }

    /// The sleeps that were asked for, by system call, the longest first.
    ///
    /// # Errors
    /// [`BpfError::Libbpf`] where the counters cannot be read.
    pub fn sleeps(&self) -> Result<Vec<Sleeps>, BpfError> {
        let mut all = Vec::new();
        for syscall in 0..SYSCALLS as u32 {
            if let [count, ns] = loader::sums(&self.skeleton.maps.sleeps, syscall)?[..] {
                all.push(Sleeps { syscall, count, ns });
            }
        }
        all.retain(|sleeps| sleeps.count > 0);
        all.sort_by_key(|sleeps| std::cmp::Reverse(sleeps.ns));
        Ok(all)
    }
}

/// A per-CPU entry of one word, summed over all CPUs.
fn sum(map: &impl MapCore, key: u32) -> Result<u64, BpfError> {
    Ok(loader::sums(map, key)?.first().copied().unwrap_or_default())
}

/// Opens, sets up and loads what works here and is not known to be broken.
fn load(
    settings: &Settings,
    kernel: &Kernel,
    cpus: u32,
    broken: &loader::Broken,
) -> Result<TimelineSkel<'static>, libbpf_rs::Error> {
    // The skeleton borrows this little from whoever opens it, and lives as long as it likes.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = TimelineSkelBuilder::default().open(storage)?;
    set_up(&mut open, settings, kernel, cpus)?;
    let ends = settings.sets.contains(&Set::Fault) && !broken.contains_key(FAULT_END);
    loader::autoload(open.open_object_mut(), FAULT_END, ends);
    for &(program, tracepoint, set) in PROGRAMS {
        let wanted = left_out(program, tracepoint, set, &settings.sets, kernel).is_none();
        loader::autoload(open.open_object_mut(), program, wanted && !broken.contains_key(program));
    }
    if !has_fetch(kernel) {
        loader::without_fetch(open.open_object_mut())?;
    }
    open.load()
}

/// Atomic fetch-and-add came with 5.12, this helper with 5.13.
fn has_fetch(kernel: &Kernel) -> bool {
    kernel.helper("for_each_map_elem")
}

fn set_up(
    open: &mut OpenTimelineSkel<'static>,
    settings: &Settings,
    kernel: &Kernel,
    cpus: u32,
) -> Result<(), libbpf_rs::Error> {
    open.maps.spikes.set_max_entries(settings.room)?;
    open.maps.events.set_max_entries(settings.slots * cpus)?;
    open.maps.cpus.set_max_entries(cpus)?;
    let storage = kernel.task_storage();
    open.maps.waits.set_autocreate(storage)?;
    open.maps.waits_by_tid.set_autocreate(!storage)?;
    open.maps.blank.set_autocreate(!storage)?;
    let Some(constants) = open.maps.rodata_data.as_deref_mut() else { return Ok(()) };
    constants.min_ns = settings.threshold.0;
    constants.own_tgid = std::process::id();
    constants.slots = settings.slots;
    constants.has_fetch = has_fetch(kernel);
    constants.has_current = kernel.helper("get_current_task_btf");
    constants.has_regs = kernel.helper("task_pt_regs");
    constants.has_task_stack = kernel.helper("get_task_stack");
    constants.steal_from_rq = kernel.distance("runqueues", "steal_time").unwrap_or(0);
    constants.by_hash = !storage;
    constants.all_switches = true;
    constants.only_tid = settings.watch.only_thread();
    constants.only_tgid = settings.watch.only_process();
    constants.by_list = settings.watch.is_by_task();
    constants.by_cpu = settings.watch.is_by_cpu();
    constants.idle_kthreads = !settings.voluntary.is_empty();
    for (numbers, words) in
        [(&settings.voluntary, &mut constants.voluntary), (&settings.timed, &mut constants.timed)]
    {
        for &number in numbers {
            if let Some(word) = words.get_mut(number as usize / 64) {
                *word |= 1 << (number % 64);
            }
        }
    }
    Ok(())
}
