//! One pinned thread per CPU, all of them starting at the same instant.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, Thread};
use std::time::Duration;

use quietcore_measure::{CpuSet, Nanos};
use quietcore_sys::clock::ClockError;
use quietcore_sys::memory;
use quietcore_sys::sched::{self, Class, SchedError, Usage};
use quietcore_sys::tsc::{Anchor, Clock, Timebase};

/// Small, because locked memory is there in full whether it is used or not.
const STACK: usize = 256 * 1024;

/// Time for every thread to wake up and spin before the common start.
const LEAD_IN: Nanos = Nanos::from_ms(20);

/// How often the leader looks whether all is done: it runs on another CPU if there is one.
const BEAT: Duration = Duration::from_millis(100);

/// How often the counter is tied to the kernel's clock again.
const ANCHOR_EVERY: Nanos = Nanos::from_secs(1);

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SpikeError {
    /// No CPU was named.
    #[error("no CPU to measure: name at least one, as --cpus 2-3")]
    NoCpus,
    /// Real-time spinning threads on every CPU would lock everybody out, this program included.
    #[error(
        "SCHED_FIFO on CPUs {cpus} would leave no online CPU ({online}) for anything else, \
         not even for stopping it; leave one out"
    )]
    FifoEverywhere {
        /// The CPUs asked for.
        cpus: CpuSet,
        /// The CPUs there are.
        online: CpuSet,
    },
    /// SCHED_FIFO has priorities 1 to 99.
    #[error("SCHED_FIFO priority {0} does not exist: 1 to 99 do")]
    Priority(u8),
    /// A period that cannot be kept or measured.
    #[error("a wake-up period of {0} is out of range: 50 µs to 10 s are possible")]
    Period(Nanos),
    /// A thread could not be placed.
    #[error(transparent)]
    Sched(#[from] SchedError),
    /// A thread could not sleep.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// A thread could not be started.
    #[error("cannot start a thread for CPU {cpu}: {error}")]
    Thread {
        /// The CPU it was meant for.
        cpu: usize,
        /// What the system said.
        error: io::Error,
    },
    /// A thread ended without a word.
    #[error("the measuring thread of CPU {0} died")]
    Died(usize),
}

/// Where the crew works.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    /// One thread for each of these.
    pub cpus: CpuSet,
    /// SCHED_FIFO with this priority instead of the caller's class.
    pub fifo: Option<u8>,
    /// Whether the work sleeps between short bursts, and so lets others run in any class.
    pub sleeps: bool,
    /// Whether memory is to be locked, which also faults it in.
    pub lock: bool,
}

impl Post {
    /// Refuses what cannot work and what could not be stopped.
    pub(crate) fn check(&self, online: &CpuSet) -> Result<(), SpikeError> {
        if self.cpus.is_empty() {
            return Err(SpikeError::NoCpus);
        }
        match self.fifo {
            Some(priority) if !(1..=99).contains(&priority) => Err(SpikeError::Priority(priority)),
            Some(_) if !self.sleeps && online.is_subset(&self.cpus) => {
                Err(SpikeError::FifoEverywhere { cpus: self.cpus.clone(), online: online.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// A thread at its post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Where it works.
    pub cpu: usize,
    /// Its id.
    pub tid: i32,
}

/// What the leader is told.
pub(crate) enum Moment<'a> {
    /// All are ready and asleep.
    Ready(&'a [Member]),
    /// Work goes on; so much time has gone by.
    Working(Nanos),
    /// All are done and asleep; they still exist.
    Done(&'a [Member]),
}

/// What came of one thread's work.
#[derive(Debug)]
pub(crate) struct Share<T> {
    pub cpu: usize,
    /// What the work itself used, without preparations.
    pub usage: Usage,
    /// Whether it was still bound to its CPU in the end.
    pub stayed: bool,
    pub result: T,
}

/// What came of it all.
#[derive(Debug)]
pub(crate) struct Work<T> {
    pub shares: Vec<Share<T>>,
    /// Ticks of the clock to CLOCK_MONOTONIC, for the whole of the work.
    pub timebase: Timebase,
    /// The common start in ticks.
    pub start: u64,
    /// Why memory was not locked, if it should have been.
    pub not_locked: Option<String>,
    /// Whether the leader had to share a CPU with those that were measured.
    pub leader_in_the_way: bool,
}

/// Signals between the leader and the crew.
#[derive(Default)]
struct Signals {
    /// Ticks of the common start; 0 means wait.
    start: AtomicU64,
    called_off: AtomicBool,
    dismissed: AtomicBool,
}

enum Report {
    Ready(Member, Thread),
    Failed(SpikeError),
    Done,
}

/// Runs `work` on every CPU of the post: each thread prepares, all start at the same tick, which
/// `work` is given and should spin for, and all live until the leader has looked around.
pub(crate) fn run<P, T: Send>(
    post: &Post,
    clock: &Clock,
    prepare: impl Fn(usize) -> Result<P, SpikeError> + Sync,
    work: impl Fn(P, u64) -> Result<T, SpikeError> + Sync,
    mut observe: impl FnMut(Moment<'_>),
) -> Result<Work<T>, SpikeError> {
    let locked = post.lock.then(memory::lock_all);
    let aside = StepAside::from(&post.cpus);
    let signals = Signals::default();
    let (sender, reports) = mpsc::channel();
    let result = thread::scope(|scope| {
        let mut handles = Vec::new();
        for cpu in post.cpus.iter() {
            let (sender, signals) = (sender.clone(), &signals);
            let (prepare, work) = (&prepare, &work);
            let body = move || at_post(cpu, post.fifo, signals, &sender, prepare, work);
            let builder = thread::Builder::new().name(format!("spike-{cpu}")).stack_size(STACK);
            match builder.spawn_scoped(scope, body) {
                Ok(handle) => handles.push((cpu, handle)),
                Err(error) => {
                    signals.called_off.store(true, Ordering::Release);
                    return Err(SpikeError::Thread { cpu, error });
                }
            }
        }
        drop(sender);
        let led = lead(post, clock, &signals, &reports, &mut observe);
        let mut shares = Vec::new();
        for (cpu, handle) in handles {
            match handle.join() {
                Ok(Some(share)) => shares.push(share?),
                Ok(None) => {}
                Err(_) => return Err(SpikeError::Died(cpu)),
            }
        }
        let (timebase, start) = led?;
        Ok((shares, timebase, start))
    });
    if matches!(locked, Some(Ok(()))) {
        memory::unlock_all();
    }
    let not_locked = locked.and_then(Result::err).map(|error| error.to_string());
    let (shares, timebase, start) = result?;
    Ok(Work { shares, timebase, start, not_locked, leader_in_the_way: aside.in_the_way() })
}

/// The life of one thread. `None` if the work was called off.
fn at_post<P, T>(
    cpu: usize,
    fifo: Option<u8>,
    signals: &Signals,
    reports: &mpsc::Sender<Report>,
    prepare: impl Fn(usize) -> Result<P, SpikeError>,
    work: impl Fn(P, u64) -> Result<T, SpikeError>,
) -> Option<Result<Share<T>, SpikeError>> {
    let prepared = sched::place(sched::CALLER, &[cpu].into_iter().collect())
        .map_err(SpikeError::from)
        .and_then(|()| prepare(cpu))
        .and_then(|prepared| match fifo {
            Some(priority) => {
                sched::set_class(sched::CALLER, Class::Fifo { priority })?;
                Ok(prepared)
            }
            None => Ok(prepared),
        });
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            // The leader is gone only if the whole run has failed already.
            let _ = reports.send(Report::Failed(error));
            return None;
        }
    };
    let member = Member { cpu, tid: sched::thread_id() };
    reports.send(Report::Ready(member, thread::current())).ok()?;
    let start = wait_for_start(signals)?;

    let before = sched::usage();
    let result = work(prepared, start);
    let after = sched::usage();
    // A CPU that goes offline gives its threads away, and a changed cpuset takes them.
    let stayed = sched::affinity(sched::CALLER).is_ok_and(|cpus| cpus.iter().eq([cpu]));

    // The thread's files in /proc go with it, so it stays until the leader has read them.
    let _ = reports.send(Report::Done);
    while !signals.dismissed.load(Ordering::Acquire) && !signals.called_off.load(Ordering::Acquire)
    {
        thread::park();
    }
    Some(result.and_then(|result| {
        let usage = after?.since(&before?);
        Ok(Share { cpu, usage, stayed, result })
    }))
}

fn wait_for_start(signals: &Signals) -> Option<u64> {
    loop {
        if signals.called_off.load(Ordering::Acquire) {
            return None;
        }
        match signals.start.load(Ordering::Acquire) {
            0 => thread::park(),
            start => return Some(start),
        }
    }
}

fn lead(
    post: &Post,
    clock: &Clock,
    signals: &Signals,
    reports: &mpsc::Receiver<Report>,
    observe: &mut impl FnMut(Moment<'_>),
) -> Result<(Timebase, u64), SpikeError> {
    let mut members = Vec::new();
    let mut threads = Vec::new();
    let mut failure = None;
    for _ in 0..post.cpus.len() {
        match reports.recv() {
            Ok(Report::Ready(member, thread)) => {
                members.push(member);
                threads.push(thread);
            }
            Ok(Report::Failed(error)) => failure = failure.or(Some(error)),
            Ok(Report::Done) | Err(_) => {}
        }
    }
    let wake = || threads.iter().for_each(Thread::unpark);
    if let Some(error) = failure {
        signals.called_off.store(true, Ordering::Release);
        wake();
        return Err(error);
    }
    observe(Moment::Ready(&members));
    let mut anchors = vec![clock.anchor()];
    let start = clock.ticks() + clock.rate().ticks(LEAD_IN.0);
    signals.start.store(start, Ordering::Release);
    wake();

    let mut done = 0;
    while done < threads.len() {
        match reports.recv_timeout(BEAT) {
            Ok(_) => done += 1,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let elapsed = clock.rate().ns(clock.ticks().saturating_sub(start));
        tie(&mut anchors, clock, ANCHOR_EVERY);
        observe(Moment::Working(Nanos(elapsed)));
    }
    tie(&mut anchors, clock, Nanos(0));
    observe(Moment::Done(&members));
    signals.dismissed.store(true, Ordering::Release);
    wake();
    Ok((Timebase::new(anchors, clock.rate()), start))
}

/// Adds an anchor if the last one is at least `age` old.
fn tie(anchors: &mut Vec<Anchor>, clock: &Clock, age: Nanos) {
    let last = anchors.last().map_or(0, |anchor| anchor.ticks);
    if clock.rate().ns(clock.ticks().saturating_sub(last)) >= age.0 {
        let anchor = clock.anchor();
        if anchor.ticks > last {
            anchors.push(anchor);
        }
    }
}

/// Keeps the leader off the measured CPUs if it may run anywhere else; put back on drop.
struct StepAside {
    before: Option<CpuSet>,
    in_the_way: bool,
}

impl StepAside {
    fn from(cpus: &CpuSet) -> Self {
        let Ok(allowed) = sched::affinity(sched::CALLER) else {
            return Self { before: None, in_the_way: true };
        };
        let elsewhere = allowed.minus(cpus);
        let moved = !elsewhere.is_empty() && sched::place(sched::CALLER, &elsewhere).is_ok();
        Self { in_the_way: !moved, before: moved.then_some(allowed) }
    }

    fn in_the_way(&self) -> bool {
        self.in_the_way
    }
}

impl Drop for StepAside {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // It was allowed before; should a CPU have gone offline since, little is lost.
            let _ = sched::place(sched::CALLER, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn real_time_spinning_leaves_a_cpu_for_everybody_else() {
        let post = |cpus, fifo| Post { cpus: set(cpus), fifo, sleeps: false, lock: true };
        let refused = post("0-3", Some(80)).check(&set("0-3")).unwrap_err();
        assert!(matches!(refused, SpikeError::FifoEverywhere { .. }), "{refused}");
        assert!(post("0-5", Some(80)).check(&set("0-3")).is_err());
        assert!(post("0-2", Some(80)).check(&set("0-3")).is_ok());
        assert!(post("0-3", None).check(&set("0-3")).is_ok());
        assert!(post("1", Some(0)).check(&set("0-3")).is_err());
        assert!(post("1", Some(100)).check(&set("0-3")).is_err());
        let sleepy = Post { sleeps: true, ..post("0-3", Some(80)) };
        assert!(sleepy.check(&set("0-3")).is_ok());
        assert!(matches!(post("", None).check(&set("0-3")), Err(SpikeError::NoCpus)));
    }

    #[test]
    fn the_crew_works_where_it_was_sent_and_starts_together() {
        let cpus = sched::affinity(sched::CALLER).unwrap();
        let clock = Clock::kernel("a test".to_owned());
        let mut moments = Vec::new();
        let work = run(
            &Post { cpus: cpus.clone(), fifo: None, sleeps: false, lock: false },
            &clock,
            Ok,
            |cpu, start| {
                while clock.ticks() < start {}
                Ok((cpu, sched::current_cpu(), clock.ticks() >= start))
            },
            |moment| {
                moments.push(match moment {
                    Moment::Ready(members) => ("ready", members.len()),
                    Moment::Working(_) => ("working", 0),
                    Moment::Done(members) => ("done", members.len()),
                });
            },
        )
        .unwrap();
        assert_eq!(work.shares.len(), cpus.len());
        for share in &work.shares {
            assert_eq!(share.result, (share.cpu, Some(share.cpu), true));
        }
        assert_eq!(moments.first(), Some(&("ready", cpus.len())));
        assert_eq!(moments.last(), Some(&("done", cpus.len())));
        assert_eq!(sched::affinity(sched::CALLER).unwrap(), cpus);
    }

    #[test]
    fn one_that_cannot_go_to_its_post_calls_the_work_off() {
        let here = sched::affinity(sched::CALLER).unwrap().lowest().unwrap();
        let clock = Clock::kernel("a test".to_owned());
        let cpus = [here, 9_000].into_iter().collect();
        let post = Post { cpus, fifo: None, sleeps: false, lock: false };
        let error = run(&post, &clock, Ok, |_, _| Ok(()), |_| {}).unwrap_err();
        assert!(error.to_string().contains("9000"), "{error}");
    }
}
