//! Watches a tuned host: sleeps until a file is written or a second has passed, then reads.
//!
//! Written files are reported with their writers ([`Writers`]). Everything is read once a second
//! besides: what is not a file, and what was written past the kernel's eyes.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use quietcore_facts::Facts;
use quietcore_measure::{CpuSet, Nanos};
use quietcore_sys::lease::{self, Slot, Value};
use quietcore_sys::writers::{Write, Writers};
use quietcore_sys::{Host, Trouble};

use super::{By, Drift, News, expected};
use crate::plan::plan;
use crate::tuning::{LEASE, TuneError, Tuning, tuning_of};

type Held = Result<Value, Trouble>;

/// What has become of the journal.
enum Journal {
    Same,
    Changed,
    Ended,
}

/// How often everything is read.
const PERIOD: Duration = Duration::from_secs(1);
/// How often it is asked whether another quietcore is done.
const BUSY: Duration = Duration::from_millis(100);
/// How long the report of a write may take that was noticed by its effect.
const GRACE: Duration = Duration::from_millis(20);

/// Watches over what is in force on this host.
#[derive(Debug)]
pub struct Watcher {
    folder: PathBuf,
    facts: Facts,
    tuning: Tuning,
    standing: lease::Standing,
    drift: Drift,
    slots: Vec<Slot>,
    writers: Result<Writers, String>,
    /// Writes to places that were not looked at since.
    pending: Vec<Write>,
    losses: u64,
    /// The process that is changing the host through a lease.
    holder: Option<u32>,
    begun: Instant,
    /// When everything was read last.
    read: Option<Instant>,
    /// Whether everything was judged once.
    settled: bool,
}

/// What came of waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// What happened, often nothing.
    News(Vec<News>),
    /// What was in force was taken back: there is nothing left to watch.
    Over,
}

impl Watcher {
    /// Begins to watch; `None` if nothing is in force.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn begin(folder: &Path) -> Result<Option<Self>, TuneError> {
        let facts = Facts::of(Host::live());
        let Some((standing, tuning)) = in_force(folder, &facts)? else { return Ok(None) };
        let mut watcher = Self {
            folder: folder.to_owned(),
            facts,
            tuning,
            standing,
            drift: Drift::default(),
            slots: Vec::new(),
            writers: Err(String::new()),
            pending: Vec::new(),
            losses: 0,
            holder: None,
            begun: Instant::now(),
            read: None,
            settled: false,
        };
        watcher.expect();
        Ok(Some(watcher))
    }

    /// All that happened so far.
    pub fn drift(&self) -> &Drift {
        &self.drift
    }

    /// The number of places.
    pub fn places(&self) -> usize {
        self.slots.len()
    }

    /// The host as it was when the lease was read last.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// How often the kernel lost reports of writes: their writers are unknown.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Whether lines of the journal could not be read, so that places may be missing.
    pub fn is_damaged(&self) -> bool {
        !self.standing.damaged.is_empty()
    }

    /// Why writers of files cannot be named, if so.
    pub fn nameless(&self) -> Option<&str> {
        self.writers.as_ref().err().map(String::as_str)
    }

    /// The CPUs on which watching disturbs nobody.
    pub fn housekeeping(&self) -> CpuSet {
        let isolation = self.facts.isolation();
        let kept = self.facts.cpus().online.minus(&self.tuning.cpus.isolated);
        kept.minus(&isolation.domain).minus(&isolation.tickless)
    }

    /// Waits for news, not longer than `at_most` or a second; a signal ends it early. The first
    /// news is what has drifted already.
    ///
    /// # Errors
    /// The journal cannot be read any more.
    pub fn next(&mut self, at_most: Duration) -> Result<Heard, TuneError> {
        let due = |read: Option<Instant>| {
            read.map_or(Duration::ZERO, |read| PERIOD.saturating_sub(read.elapsed()))
        };
        let wait = match self.holder {
            Some(_) => BUSY,
            None if self.pending.is_empty() => due(self.read),
            None => Duration::ZERO,
        };
        self.hear(wait.min(at_most));
        let is_due = due(self.read).is_zero();
        if self.pending.is_empty() && !is_due {
            return Ok(Heard::News(Vec::new()));
        }
        let slots = match is_due {
            true => self.slots.clone(),
            false => self.slots.iter().filter(|s| self.written(s).is_some()).cloned().collect(),
        };
        let read = self.read_changed(slots.clone());
        // What was read is judged by a journal that was the same before and after. Who holds the
        // lease is asked for news only: listing all locks makes the kernel wait for every CPU.
        self.holder = if read.is_empty() { None } else { lease::holder(&self.folder) };
        match self.journal()? {
            Journal::Ended => return Ok(Heard::Over),
            Journal::Changed => {
                self.holder = lease::holder(&self.folder);
                return Ok(Heard::News(Vec::new()));
            }
            Journal::Same => {}
        }
        let news = self.judge(&slots, read);
        if is_due {
            self.read = Some(Instant::now());
            self.settled |= self.holder.is_none();
        }
        Ok(Heard::News(news))
    }

    /// Whether another wrote a place than the one who is changing the host through a lease: that
    /// one is waited for, since the journal tells what is meant when all is done.
    fn is_foreign(&self, slot: &Slot) -> bool {
        let pid = |write: &Write| write.pid.and_then(|pid| u32::try_from(pid).ok());
        self.written(slot).is_some_and(|write| pid(write) != self.holder)
    }

    /// Sleeps until a place was written; our own writes are none.
    fn hear(&mut self, wait: Duration) {
        let Ok(writers) = &mut self.writers else { return thread::sleep(wait) };
        match writers.next(wait) {
            Ok(heard) => {
                self.losses += heard.losses;
                self.pending.extend(heard.writes.into_iter().filter(|write| !write.own));
            }
            Err(error) => {
                self.losses += 1;
                self.writers = Err(error.to_string());
            }
        }
    }

    /// Reads the journal and takes over what has changed in it.
    fn journal(&mut self) -> Result<Journal, TuneError> {
        let Some((standing, tuning)) = in_force(&self.folder, &self.facts)? else {
            return Ok(Journal::Ended);
        };
        if standing == self.standing {
            return Ok(Journal::Same);
        }
        (self.standing, self.tuning) = (standing, tuning);
        self.facts = Facts::of(Host::live());
        self.expect();
        Ok(Journal::Changed)
    }

    fn expect(&mut self) {
        let Tuning { profile, cpus, reach, .. } = &self.tuning;
        let plan = plan(&self.facts, profile, cpus, *reach);
        self.drift.expect(expected(&plan, &self.tuning.refused, &self.standing.entries));
        let slots: Vec<Slot> = self.drift.slots().cloned().collect();
        if slots != self.slots {
            self.writers = Writers::watch(&files(&slots)).map_err(|error| error.to_string());
            self.pending.retain(|write| slots.iter().any(|slot| slot.path() == Some(&write.path)));
            self.slots = slots;
        }
    }

    /// Reads places and keeps what is news.
    fn read_changed(&mut self, slots: Vec<Slot>) -> Vec<(Slot, Held)> {
        let news = self.changed(slots);
        if news.iter().all(|(slot, _)| !is_file(slot) || self.written(slot).is_some()) {
            return news;
        }
        self.hear(GRACE);
        self.changed(news.into_iter().map(|(slot, _)| slot).collect())
    }

    fn changed(&self, slots: Vec<Slot>) -> Vec<(Slot, Held)> {
        let held = self.facts.host().look_all(&slots);
        let mut both: Vec<(Slot, Held)> = slots.into_iter().zip(held).collect();
        both.retain(|(slot, held)| self.drift.is_news(slot, held));
        both
    }

    /// What of it is to be told. Places that a lease is being changed through wait until it is.
    fn judge(&mut self, looked: &[Slot], read: Vec<(Slot, Held)>) -> Vec<News> {
        let at = Nanos::from(self.begun.elapsed());
        let judged = |slot: &Slot| self.holder.is_none() || self.is_foreign(slot);
        let done: Vec<Slot> = looked.iter().filter(|slot| judged(slot)).cloned().collect();
        let mut told = Vec::new();
        for (slot, held) in read.iter().filter(|(slot, _)| done.contains(slot)) {
            let by = self.by(slot);
            told.extend(self.drift.look(slot, held, at, by).cloned());
        }
        self.pending.retain(|write| !done.iter().any(|slot| slot.path() == Some(&write.path)));
        told
    }

    /// The last write to a place since it was looked at.
    fn written(&self, slot: &Slot) -> Option<&Write> {
        let path = slot.path()?;
        self.pending.iter().rev().find(|write| write.path == path)
    }

    fn by(&self, slot: &Slot) -> By {
        match self.written(slot) {
            Some(Write { pid: Some(pid), writer, .. }) => {
                By::Process { pid: *pid, writer: writer.clone() }
            }
            Some(_) => By::Unknown("a process of another pid namespace".to_owned()),
            None if !self.settled => By::Unknown("before the watch began".to_owned()),
            None => By::Unknown(self.why_unknown(slot)),
        }
    }

    fn why_unknown(&self, slot: &Slot) -> String {
        let unwatched = |path: &str| match &self.writers {
            Err(why) => Some(why.clone()),
            Ok(writers) => {
                let of = writers.unwatched().iter().find(|unwatched| unwatched.path == path);
                of.map(|unwatched| format!("its writers cannot be watched: {}", unwatched.error))
            }
        };
        match slot {
            Slot::Knob { path, .. } | Slot::File { path } => unwatched(path).unwrap_or_else(|| {
                "no process wrote this file: the kernel itself did, or one in a container"
                    .to_owned()
            }),
            Slot::Folder { .. } => "folders are only looked at".to_owned(),
            Slot::Unit { .. } | Slot::Enabled { .. } => "systemd does not say who asked".to_owned(),
            Slot::Device { .. } => "the kernel does not say who asked a driver".to_owned(),
            Slot::Affinity { .. } | Slot::Member { .. } | Slot::NextBoot { .. } => {
                "the kernel does not say who".to_owned()
            }
        }
    }
}

fn in_force(folder: &Path, facts: &Facts) -> Result<Option<(lease::Standing, Tuning)>, TuneError> {
    let Some(standing) = lease::look(folder, LEASE, facts.host())? else { return Ok(None) };
    let tuning = tuning_of(&standing.about)?;
    Ok(tuning.map(|tuning| (standing, tuning)))
}

/// Places that are changed by writing to a file.
fn is_file(slot: &Slot) -> bool {
    matches!(slot, Slot::Knob { .. } | Slot::File { .. })
}

fn files(slots: &[Slot]) -> Vec<String> {
    slots.iter().filter(|slot| is_file(slot)).filter_map(Slot::path).map(str::to_owned).collect()
}
