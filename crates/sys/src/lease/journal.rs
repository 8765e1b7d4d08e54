//! The write-ahead journal: what a host was like before it was changed, on the disk before it is.
//!
//! One record a line, a checksum before each. Lines are only ever appended. A last line that is
//! not whole was being written when the power went: what it speaks of had not begun. Any other
//! line that is not whole is damage; what the others say is used, and the damage is told.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::Crc;
use serde::{Deserialize, Serialize};

use super::slot::Slot;
use super::value::Value;

/// Version of the records.
const FORMAT: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// The first line: whose journal this is.
    Header {
        /// Version of the records.
        format: u32,
        /// `/etc/machine-id`.
        machine: String,
        /// Seconds since 1970.
        at: u64,
    },
    /// What the lease is about, in its holder's words; the last one counts.
    About(serde_json::Value),
    /// Until when it holds; the last one counts.
    Term(Term),
    /// What places held before they are changed.
    Before(Vec<Entry>),
    /// Another value for places that are in the journal.
    Again(Vec<(usize, Value)>),
    /// What a place reads after it was changed, by the entry's number.
    Set(usize, Value),
    /// Entries that were taken back while the lease goes on.
    Void(Vec<usize>),
}

/// A place, what it held, and what it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The place.
    pub slot: Slot,
    /// The boot in which it was changed; empty for what outlives a boot.
    pub boot: String,
    /// What it held.
    pub before: Value,
    /// What it was given, and what it then read: any of these is our own value. The last is in
    /// force.
    pub ours: Vec<Value>,
    /// Whether it was given back already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub void: bool,
}

/// Until when a lease holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Until it is taken back.
    Kept,
    /// Until this moment of this boot.
    Until {
        /// Boot.
        boot: String,
        /// Nanoseconds since boot, sleep included.
        nanos: u64,
    },
    /// As long as a process lives.
    While {
        /// Process.
        pid: u32,
        /// Its start time in clock ticks since boot.
        started: u64,
    },
}

/// What a journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub machine: String,
    pub at: u64,
    pub about: serde_json::Value,
    pub term: Term,
    pub entries: Vec<Entry>,
    /// Lines that could not be read, counted from 1.
    pub damaged: Vec<usize>,
    /// Where a whole last line ends.
    whole: u64,
}

/// A journal that is open for appending.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
    /// Whether its name is on the disk.
    named: bool,
}

impl Journal {
    /// Begins a journal; on the disk after [`Journal::sync`].
    pub(super) fn create(path: &Path, machine: &str, at: u64) -> io::Result<Self> {
        let beside = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let mut journal =
            Self { file: options.open(&beside)?, path: path.to_owned(), length: 0, named: false };
        journal.append(&Record::Header { format: FORMAT, machine: machine.to_owned(), at })?;
        fs::rename(&beside, path)?;
        Ok(journal)
    }

    /// Opens one that is there; `None` if there is none.
    pub(super) fn open(path: &Path) -> io::Result<Option<(Self, Contents)>> {
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let contents = parse(&fs::read(path)?);
        // What was being appended when the power went would spoil the next line.
        file.set_len(contents.whole)?;
        file.seek(SeekFrom::Start(contents.whole))?;
        let length = contents.whole;
        Ok(Some((Self { file, path: path.to_owned(), length, named: true }, contents)))
    }

    /// Adds a line. A line that did not go in whole (the disk is full) is taken out again.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        let line = line(record)?;
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Returns when everything appended is on the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if !self.named {
            self.sync_folder()?;
            self.named = true;
        }
        Ok(())
    }

    /// Ends the journal: there is nothing left to take back.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        self.sync_folder()
    }

    /// A journal on a full disk.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        Self { file, path: PathBuf::from("/dev/full"), length: 0, named: true }
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(self.path.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

fn line(record: &Record) -> io::Result<String> {
    let json = serde_json::to_string(record)?;
    Ok(format!("{:08x} {json}\n", checksum(json.as_bytes())))
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn unwrap(line: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(line).ok()?;
    let (sum, json) = text.split_once(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    let record = (sum == checksum(json.as_bytes())).then(|| serde_json::from_str(json).ok())?;
    record.filter(|record| !matches!(record, Record::Header { format, .. } if *format != FORMAT))
}

/// Reads a journal, whatever it holds.
pub(super) fn parse(bytes: &[u8]) -> Contents {
    let mut contents = Contents {
        machine: String::new(),
        at: 0,
        about: serde_json::Value::Null,
        term: Term::Kept,
        entries: Vec::new(),
        damaged: Vec::new(),
        whole: 0,
    };
    let (mut end, mut safe) = (0, usize::MAX);
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        end += line.len() as u64;
        let Some(whole) = line.strip_suffix(b"\n") else { break };
        match unwrap(whole) {
            Some(record) => contents.take(record, safe),
            None => {
                // An entry's number is its place: those behind a lost line are not what is meant.
                safe = safe.min(contents.entries.len());
                contents.damaged.push(number);
            }
        }
        contents.whole = end;
    }
    contents
}

impl Contents {
    /// Only entries below `safe` are known by their numbers.
    fn take(&mut self, record: Record, safe: usize) {
        let known = safe.min(self.entries.len());
        let numbered = &mut self.entries[..known];
        match record {
            Record::Header { machine, at, .. } => (self.machine, self.at) = (machine, at),
            Record::About(about) => self.about = about,
            Record::Term(term) => self.term = term,
            Record::Before(entries) => self.entries.extend(entries),
            Record::Again(values) => values.into_iter().for_each(|(number, value)| {
                numbered.get_mut(number).into_iter().for_each(|entry| entry.gave(value.clone()));
            }),
            Record::Set(number, value) => {
                numbered.get_mut(number).into_iter().for_each(|entry| entry.gave(value.clone()));
            }
            Record::Void(numbers) => numbers.into_iter().for_each(|number| {
                numbered.get_mut(number).into_iter().for_each(|entry| entry.void = true);
            }),
        }
    }
}

impl Entry {
    /// Notes a value of ours; the last one noted is in force.
    pub(super) fn gave(&mut self, value: Value) {
        self.ours.retain(|other| *other != value);
        self.ours.push(value);
    }

    /// The value in force.
    pub fn in_force(&self) -> &Value {
        self.ours.last().unwrap_or(&self.before)
    }

    /// Whether a value is one that we gave.
    pub fn is_ours(&self, value: &Value) -> bool {
        self.ours.iter().any(|ours| self.slot.same(ours, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> Entry {
        let (before, ours) = (Value::text("1"), vec![Value::text("0")]);
        Entry { slot: Slot::word(path), boot: "b".into(), before, ours, void: false }
    }

    fn journal(folder: &Path) -> (PathBuf, Vec<u8>) {
        let path = folder.join("a.lease");
        let mut journal = Journal::create(&path, "m", 7).unwrap();
        for record in [
            Record::About(serde_json::json!({"profile": "p"})),
            Record::Before(vec![entry("/a"), entry("/b")]),
            Record::Set(0, Value::text("0 rounded")),
            Record::Again(vec![(1, Value::text("2"))]),
            Record::Void(vec![0]),
            Record::Term(Term::While { pid: 1, started: 2 }),
        ] {
            journal.append(&record).unwrap();
        }
        journal.sync().unwrap();
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    }

    #[test]
    fn what_was_appended_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = journal(folder.path());
        let (_, contents) = Journal::open(&path).unwrap().unwrap();
        assert_eq!((contents.machine.as_str(), contents.at), ("m", 7));
        assert_eq!(contents.about["profile"], "p");
        assert_eq!(contents.term, Term::While { pid: 1, started: 2 });
        assert!(contents.entries[0].void && !contents.entries[1].void);
        assert_eq!(contents.entries[0].in_force(), &Value::text("0 rounded"));
        assert!(contents.entries[1].is_ours(&Value::text("0")));
        assert_eq!(contents.entries[1].in_force(), &Value::text("2"));
        assert!(contents.damaged.is_empty());
    }

    #[test]
    fn a_journal_cut_anywhere_tells_what_was_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = journal(folder.path());
        let whole: Vec<usize> =
            (0..=bytes.len()).filter(|end| *end == 0 || bytes[end - 1] == b'\n').collect();
        for cut in 0..=bytes.len() {
            let contents = parse(&bytes[..cut]);
            let kept = whole.iter().copied().filter(|end| *end <= cut).max().unwrap();
            assert_eq!(contents.whole, kept as u64, "cut at {cut}");
            assert!(contents.damaged.is_empty(), "cut at {cut}");
            assert_eq!(contents.entries, parse(&bytes[..kept]).entries, "cut at {cut}");
        }
        // What is appended after a cut stands on a line of its own.
        fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let (mut again, _) = Journal::open(&path).unwrap().unwrap();
        again.append(&Record::Term(Term::Kept)).unwrap();
        let contents = parse(&fs::read(&path).unwrap());
        assert_eq!((contents.term, contents.damaged), (Term::Kept, vec![]));
    }

    #[test]
    fn a_changed_byte_is_noticed_and_no_number_is_shifted() {
        let folder = tempfile::tempdir().unwrap();
        let (_, bytes) = journal(folder.path());
        for at in 0..bytes.len() {
            let mut spoiled = bytes.clone();
            spoiled[at] ^= 0x10;
            let contents = parse(&spoiled);
            assert!(!contents.damaged.is_empty() || contents.whole < bytes.len() as u64, "{at}");
            assert!(contents.entries.is_empty() || contents.entries[0].slot == Slot::word("/a"));
        }
    }
}
