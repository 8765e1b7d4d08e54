//! The only way anything changes a host.
//!
//! A [`Lease`] is a set of changes that can be taken back: what every place held is on the disk
//! before the first of them is written, each write is read back, and whoever finds the journal
//! later, after a kill, a power cut or a reboot, can put everything back. Taking back compares
//! three values: what was before, what we gave, what is there now. What somebody else has set
//! since is left alone and told.
//!
//! A lease may have a [`Term`]: a moment, or the life of a process. A guardian ([`wait`]), a
//! process of its own, takes it back when the term is over.
//!
//! On a recorded host the same code runs against the recording.

mod change;
mod error;
mod guardian;
mod journal;
mod lock;
mod recorded;
mod slot;
mod standing;
mod value;

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::host::{Host, Trouble};
use journal::{Contents, Journal, Record};
use lock::Lock;

pub use change::{Change, Made, Outcome, TakenBack};
pub use error::{LeaseError, Refusal};
pub use guardian::{Over, is_over, spawn, until, wait, while_alive};
pub use journal::{Entry, Term};
pub use lock::holder;
pub(crate) use slot::Location;
pub use slot::{Form, Loader, Setting, Slot, dies_with_us, started_at};
pub use standing::{Standing, look, names};
pub use value::{Bytes, Content, Value};

/// Where journals are kept unless told otherwise: on a disk, for they must outlive a reboot.
pub const STATE: &str = "/var/lib/quietcore";

/// A value to be written.
#[derive(Debug)]
struct Job {
    /// Its entry in the journal.
    number: usize,
    want: Value,
    /// What the place held when the call began.
    now: Value,
    /// What an earlier call gave it, if one did.
    in_force: Option<Value>,
    optional: bool,
}

/// Changes of a host that can be taken back.
#[derive(Debug)]
pub struct Lease {
    journal: Journal,
    path: PathBuf,
    contents: Contents,
    boot: String,
    _lock: Lock,
}

impl Lease {
    /// Opens the lease of this name, or begins it. While it is held no other process changes the
    /// host through a lease of the same folder.
    ///
    /// # Errors
    /// [`LeaseError::Locked`], [`LeaseError::OtherMachine`], [`LeaseError::Damaged`], or the state
    /// folder cannot be written.
    pub fn take(folder: &Path, name: &str, host: &Host) -> Result<Self, LeaseError> {
        make_folder(folder)?;
        let lease = Self::open(folder, name, host)?;
        match lease {
            Some(lease) if !lease.contents.damaged.is_empty() => {
                Err(LeaseError::Damaged { path: lease.path, lines: lease.contents.damaged })
            }
            Some(lease) => Ok(lease),
            None => Self::begin(folder, name, host),
        }
    }

    /// Opens the lease of this name; `None` if there is none. A damaged one is opened, too, so
    /// that what it still knows can be taken back.
    pub fn open(folder: &Path, name: &str, host: &Host) -> Result<Option<Self>, LeaseError> {
        let path = file_of(folder, name);
        if !path.exists() {
            return Ok(None);
        }
        let lock = Lock::take(folder)?;
        let opened = Journal::open(&path).map_err(state(&path))?;
        let Some((journal, contents)) = opened else { return Ok(None) };
        if !contents.machine.is_empty() && contents.machine != machine(host) {
            return Err(LeaseError::OtherMachine { path });
        }
        Ok(Some(Self { journal, path, contents, boot: boot(host), _lock: lock }))
    }

    fn begin(folder: &Path, name: &str, host: &Host) -> Result<Self, LeaseError> {
        let path = file_of(folder, name);
        let lock = Lock::take(folder)?;
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let machine = machine(host);
        let journal = Journal::create(&path, &machine, at).map_err(state(&path))?;
        let mut contents = journal::parse(&[]);
        (contents.machine, contents.at) = (machine, at);
        Ok(Self { journal, path, contents, boot: boot(host), _lock: lock })
    }

    /// What the lease is about, as its holder has put it.
    pub fn about(&self) -> &serde_json::Value {
        &self.contents.about
    }

    /// Says what the lease is about; on the disk with the next change, or with [`Lease::end`].
    pub fn describe(&mut self, about: serde_json::Value) -> Result<(), LeaseError> {
        self.note(Record::About(about.clone()))?;
        self.contents.about = about;
        Ok(())
    }

    /// Until when it holds.
    pub fn term(&self) -> &Term {
        &self.contents.term
    }

    /// Says until when it holds; on the disk as [`Lease::describe`] has it.
    pub fn set_term(&mut self, term: Term) -> Result<(), LeaseError> {
        self.note(Record::Term(term.clone()))?;
        self.contents.term = term;
        Ok(())
    }

    /// The places that are changed now.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        live(&self.contents.entries, &self.boot)
    }

    /// Whether nothing is left to take back.
    pub fn is_empty(&self) -> bool {
        self.contents.entries.iter().all(|entry| entry.void)
    }

    /// Changes the host: all of it, or nothing. Places that hold their value already are left
    /// alone and not returned.
    ///
    /// # Errors
    /// [`LeaseError::Unreadable`], [`LeaseError::Refused`], or the journal could not be written:
    /// in every case what was done by this call is taken back.
    pub fn change(&mut self, host: &mut Host, changes: &[Change]) -> Result<Vec<Made>, LeaseError> {
        let todo = self.prepare(host, changes)?;
        let mut made = Vec::new();
        for (done, job) in todo.iter().enumerate() {
            let refused = match self.give(host, job) {
                // Not waited for: what was asked for is on the disk, and a line that was written
                // outlives the process.
                Ok(reads) => {
                    let _ = self.journal.append(&Record::Set(job.number, reads));
                    None
                }
                Err(why) if job.optional && self.undo(host, job) => Some(why),
                Err(why) => return Err(self.give_up(host, &todo, done, why)),
            };
            made.push(Made { slot: self.contents.entries[job.number].slot.clone(), refused });
        }
        match self.undone(host, &todo) {
            Some((job, why)) => Err(self.give_up(host, &todo, job, why)),
            None => Ok(made),
        }
    }

    /// A place that held its value when it was written, and lost it to a later write.
    fn undone(&self, host: &Host, todo: &[Job]) -> Option<(usize, String)> {
        todo.iter().enumerate().filter(|(_, job)| !job.optional).find_map(|(at, job)| {
            let slot = &self.contents.entries[job.number].slot;
            let now = host.look(slot).ok().filter(|now| !slot.same(now, &job.want))?;
            Some((at, format!("it was taken, but reads `{now}` after the others were written")))
        })
    }

    /// Reads what is there and puts it on the disk.
    fn prepare(&mut self, host: &Host, changes: &[Change]) -> Result<Vec<Job>, LeaseError> {
        let (mut new, mut again, mut todo) = (Vec::new(), Vec::new(), Vec::new());
        for Change { slot, want, optional } in changes {
            let now = match host.look(slot) {
                Err(Trouble::Missing) if changes.iter().any(|c| c.slot.is_folder_of(slot)) => {
                    Ok(Value::Absent)
                }
                // A thread that has ended since the plan was made.
                Err(Trouble::Missing) if *optional => continue,
                now => now,
            };
            let now =
                now.map_err(|why| LeaseError::Unreadable { slot: Box::new(slot.clone()), why })?;
            let there = slot.same(&now, want);
            let known =
                self.contents.entries.iter().position(|entry| {
                    entry.slot == *slot && !entry.void && is_of(entry, &self.boot)
                });
            let in_force = known.map(|number| self.contents.entries[number].in_force().clone());
            let number = match (known, &in_force) {
                (Some(number), Some(in_force)) => {
                    if !slot.same(in_force, want) {
                        again.push((number, want.clone()));
                    }
                    number
                }
                _ if there => continue,
                _ => {
                    let boot = if slot.lasts() { String::new() } else { self.boot.clone() };
                    let (before, ours) = (now.clone(), vec![want.clone()]);
                    new.push(Entry { slot: slot.clone(), boot, before, ours, void: false });
                    self.contents.entries.len() + new.len() - 1
                }
            };
            if !there {
                todo.push(Job { number, want: want.clone(), now, in_force, optional: *optional });
            }
        }
        self.put_down(new, again)?;
        Ok(todo)
    }

    /// Nothing is written to the host before this is on the disk.
    fn put_down(&mut self, new: Vec<Entry>, again: Vec<(usize, Value)>) -> Result<(), LeaseError> {
        if new.is_empty() && again.is_empty() {
            return Ok(());
        }
        if !new.is_empty() {
            self.journal.append(&Record::Before(new.clone())).map_err(state(&self.path))?;
        }
        if !again.is_empty() {
            self.journal.append(&Record::Again(again.clone())).map_err(state(&self.path))?;
        }
        self.settle()?;
        self.contents.entries.extend(new);
        for (number, value) in again {
            self.contents.entries[number].gave(value);
        }
        Ok(())
    }

    /// Writes one value and reads it back.
    fn give(&mut self, host: &mut Host, job: &Job) -> Result<Value, String> {
        let entry = &mut self.contents.entries[job.number];
        // An earlier write may have brought it about, and writing it again may undo that one: of
        // vm.dirty_bytes and vm.dirty_ratio each sets the other to 0.
        if host.look(&entry.slot).is_ok_and(|now| entry.slot.same(&now, &job.want)) {
            return Ok(job.want.clone());
        }
        host.put(&entry.slot, &job.want).map_err(|trouble| trouble.to_string())?;
        let reads = host.look(&entry.slot).map_err(|trouble| trouble.to_string())?;
        entry.gave(reads.clone());
        match entry.slot.same(&reads, &job.want) {
            true => Ok(reads),
            false => Err(format!("it was taken, but reads `{reads}`")),
        }
    }

    /// Takes back what a call has done up to and including its job number `failed`.
    fn give_up(&mut self, host: &mut Host, todo: &[Job], failed: usize, why: String) -> LeaseError {
        let mut taken_back = Vec::new();
        for job in todo[..=failed].iter().rev() {
            taken_back.extend(self.undo_one(host, job));
        }
        let never: Vec<usize> = todo[failed + 1..]
            .iter()
            .filter_map(|job| job.in_force.is_none().then_some(job.number))
            .collect();
        let _ = self.void(never);
        let job = &todo[failed];
        let slot = self.contents.entries[job.number].slot.clone();
        Box::new(Refusal { slot, value: job.want.clone(), why, taken_back }).into()
    }

    /// Takes back one value of this call; whether that worked.
    fn undo(&mut self, host: &mut Host, job: &Job) -> bool {
        let back = self.undo_one(host, job);
        !back.is_some_and(|back| matches!(back.outcome, Outcome::Failed(_)))
    }

    fn undo_one(&mut self, host: &mut Host, job: &Job) -> Option<TakenBack> {
        let Some(in_force) = &job.in_force else {
            let entry = &self.contents.entries[job.number];
            if entry.void {
                return None;
            }
            let back = take_back(host, entry, &self.boot);
            if !matches!(back.outcome, Outcome::Failed(_)) {
                let _ = self.void(vec![job.number]);
            }
            return Some(back);
        };
        // Changed by an earlier call, which goes on: back to what was there before this one.
        let entry = &mut self.contents.entries[job.number];
        let _ = host.put(&entry.slot, &job.now);
        entry.gave(in_force.clone());
        let _ = self.journal.append(&Record::Set(job.number, in_force.clone()));
        None
    }

    /// Takes back some places while the lease goes on for the others; all of them for `|_| true`.
    /// In the reverse of the order in which they were changed.
    ///
    /// # Errors
    /// The journal could not be written. A place that could not be put back is no error but an
    /// [`Outcome::Failed`]; it stays in the journal.
    pub fn take_back(
        &mut self,
        host: &mut Host,
        which: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<TakenBack>, LeaseError> {
        let entries = &self.contents.entries;
        let chosen = entries.iter().enumerate().rev().filter(|(_, e)| !e.void && which(e));
        let mut all: Vec<(usize, TakenBack)> =
            chosen.map(|(number, entry)| (number, take_back(host, entry, &self.boot))).collect();
        // What another place stood in the way of (a thread in a set of CPUs that is gone now) can
        // be put back after that one.
        let stuck = |back: &TakenBack| matches!(back.outcome, Outcome::Failed(_));
        for (number, back) in all.iter_mut().filter(|(_, back)| stuck(back)) {
            *back = take_back(host, &entries[*number], &self.boot);
        }
        let void = all.iter().filter(|(_, back)| !stuck(back)).map(|(number, _)| *number);
        let void = void.collect();
        let all = all.into_iter().map(|(_, back)| back).collect();
        self.void(void)?;
        Ok(all)
    }

    /// Lets places go as they are: what they hold is the host's own from now on.
    pub fn release(&mut self, which: impl Fn(&Entry) -> bool) -> Result<(), LeaseError> {
        let numbers = self.contents.entries.iter().enumerate();
        let gone = numbers.filter(|(_, entry)| !entry.void && which(entry));
        let gone = gone.map(|(number, _)| number).collect();
        self.void(gone)
    }

    /// Ends a lease of which nothing is left; otherwise it stays, and all that was said of it is on
    /// the disk when this returns. A damaged journal is kept beside
    /// (`.damaged`): it may be of use to a person.
    pub fn end(mut self) -> Result<(), LeaseError> {
        if !self.is_empty() {
            return self.settle();
        }
        if !self.contents.damaged.is_empty() {
            let kept = self.path.with_extension("damaged");
            return fs::rename(&self.path, kept).map_err(state(&self.path));
        }
        let path = self.path;
        self.journal.remove().map_err(state(&path))
    }

    /// Lines of the journal that could not be read.
    pub fn damaged(&self) -> &[usize] {
        &self.contents.damaged
    }

    fn void(&mut self, numbers: Vec<usize>) -> Result<(), LeaseError> {
        for &number in &numbers {
            self.contents.entries[number].void = true;
        }
        match numbers.is_empty() {
            true => Ok(()),
            false => self.note(Record::Void(numbers)),
        }
    }

    fn settle(&mut self) -> Result<(), LeaseError> {
        self.journal.sync().map_err(state(&self.path))
    }

    fn note(&mut self, record: Record) -> Result<(), LeaseError> {
        self.journal.append(&record).map_err(state(&self.path))
    }
}

impl Host {
    /// Gives a place a value. Only a lease does.
    fn put(&mut self, slot: &Slot, value: &Value) -> Result<(), Trouble> {
        match self.is_live() {
            true => slot.write(value),
            false => self.write_recorded(slot, value),
        }
    }
}

/// What is there, what we gave, what was before: only our own value is replaced.
fn take_back(host: &mut Host, entry: &Entry, boot: &str) -> TakenBack {
    let outcome = outcome(host, entry, boot);
    TakenBack { slot: entry.slot.clone(), before: entry.before.clone(), outcome }
}

fn outcome(host: &mut Host, entry: &Entry, boot: &str) -> Outcome {
    let slot = &entry.slot;
    if !is_of(entry, boot) {
        return Outcome::Rebooted;
    }
    if matches!((slot, &entry.before), (Slot::Knob { .. }, Value::Absent)) {
        // It goes with its folder, which was made before it and is taken back after it.
        return Outcome::Restored;
    }
    if let (Slot::File { path }, true) = (slot, host.is_live()) {
        if let Err(error) = slot::remove_leftover(path) {
            return Outcome::Failed(error.to_string());
        }
    }
    let now = match host.look(slot) {
        Ok(now) => now,
        Err(Trouble::Missing) => return Outcome::Gone,
        Err(trouble) => return Outcome::Failed(trouble.to_string()),
    };
    if slot.same(&now, &entry.before) {
        return Outcome::Already;
    }
    if is_used_up(slot, &now) && !is_used_up(slot, &entry.before) {
        // Somebody's own entry for the next boot: that boot has been.
        return Outcome::Rebooted;
    }
    if !entry.is_ours(&now) && !is_used_up(slot, &now) {
        return Outcome::Kept { now, ours: entry.in_force().clone() };
    }
    let put = host.put(slot, &entry.before);
    match (put, host.look(slot)) {
        (_, Ok(now)) if slot.same(&now, &entry.before) => Outcome::Restored,
        (Ok(()), Ok(now)) => Outcome::Failed(format!("it was taken, but reads `{now}`")),
        (Err(trouble), _) | (_, Err(trouble)) => Outcome::Failed(trouble.to_string()),
    }
}

/// Whether it is an entry for the next boot that a boot has taken since, or that was never set:
/// the loader clears it.
fn is_used_up(slot: &Slot, value: &Value) -> bool {
    matches!(slot, Slot::NextBoot { .. }) && value.as_text().unwrap_or_default().is_empty()
}

fn live<'a>(entries: &'a [Entry], boot: &'a str) -> impl Iterator<Item = &'a Entry> {
    entries.iter().filter(move |entry| !entry.void && is_of(entry, boot))
}

/// Whether an entry's value can still be in force in this boot.
fn is_of(entry: &Entry, boot: &str) -> bool {
    entry.boot.is_empty() || entry.boot == boot
}

fn file_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.lease"))
}

fn make_folder(folder: &Path) -> Result<(), LeaseError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(state(folder))
}

fn state(path: &Path) -> impl FnOnce(io::Error) -> LeaseError + '_ {
    move |source| LeaseError::State { path: path.to_owned(), source }
}

/// Empty where the machine has no id: then any is taken for its own.
fn machine(host: &Host) -> String {
    match host.is_live() {
        true => fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().to_owned(),
        false => host.recording_name().unwrap_or_default(),
    }
}

/// The kernel makes one up at every boot.
pub fn boot(host: &Host) -> String {
    match host.is_live() {
        true => fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
            .trim()
            .to_owned(),
        false => "recorded".to_owned(),
    }
}

#[cfg(test)]
mod tests;
