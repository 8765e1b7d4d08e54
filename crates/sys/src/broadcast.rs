//! Records that a thread publishes in shared memory, for any number of other processes.
//!
//! A program makes one [`Segment`] and one [`Writer`] per thread; publishing a record is a few stores
//! into memory of its own, without a lock and without a system call. A [`Reader`] in another process
//! reads the same memory and follows. The oldest records are overwritten, no reader holds a writer
//! up; a reader counts what it missed, and takes nothing that it reads on trust. It does not map the
//! file: whoever owns that could cut it short, which ends a program that has it mapped.
//!
//! The layout, for writers and readers in other languages: all numbers in the machine's order. The
//! file begins with `{ u64 magic; u32 version, rings, slots, pid, words; }`, padded to 64 bytes; the
//! magic says what the records are. `rings` rings follow, each `{ u64 head; u32 tid; }` padded to 64
//! bytes and then `slots` slots (a power of two) of `{ u64 seq, word[words]; }`. To publish record
//! number `n` (from 1): store 0 to the slot's `seq` (slot `(n - 1) % slots`), then (release) the
//! words, then (release) `n` to `seq` and to `head`. A reader copies a slot and then looks at `head`
//! again: a slot that the record after `head` may be going to, it has not read. A ring whose `tid`
//! is 0 is free.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::{io, process};

use memmap2::{MmapOptions, MmapRaw};

use crate::sched;

const VERSION: u32 = 2;
const LINE: usize = 64;
/// More of either is garbage.
const MOST_RINGS: u32 = 4_096;
const MOST_SLOTS: u32 = 1 << 20;
const MOST_WORDS: u32 = 512;

/// What the records of a segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// What the file begins with.
    pub magic: [u8; 8],
    /// 64-bit words of a record.
    pub words: u32,
}

/// Why a segment cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BroadcastError {
    /// The file cannot be made, opened or read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It is not such a segment, or one of another version.
    #[error("{path}: not a segment of such records: {why}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// How a segment's memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    rings: u32,
    slots: u32,
    words: u32,
}

impl Layout {
    fn slot(self) -> usize {
        8 + self.words as usize * 8
    }

    fn ring(self) -> usize {
        LINE + self.slots as usize * self.slot()
    }

    fn bytes(self) -> usize {
        LINE + self.rings as usize * self.ring()
    }

    /// Where in a ring the record with this number (from 0) is.
    fn at(self, number: u64) -> usize {
        LINE + (number & (u64::from(self.slots) - 1)) as usize * self.slot()
    }

    /// And the writing process, from the first bytes of a segment of this length.
    fn parse(head: &[u8], len: u64, format: &Format) -> Result<(Self, u32), String> {
        if !head.starts_with(&format.magic) {
            return Err("it does not begin as one".to_owned());
        }
        let number = |at| half(head, at).ok_or_else(|| "it is too short".to_owned());
        let (version, rings, slots) = (number(8)?, number(12)?, number(16)?);
        let (pid, words) = (number(20)?, number(24)?);
        if version != VERSION {
            return Err(format!("version {version}, known is {VERSION}"));
        }
        if words != format.words {
            return Err(format!("records of {words} words, not of {}", format.words));
        }
        if rings > MOST_RINGS || slots > MOST_SLOTS || !slots.is_power_of_two() {
            return Err(format!("{rings} rings of {slots} slots"));
        }
        let layout = Self { rings, slots, words };
        match layout.bytes() as u64 <= len {
            true => Ok((layout, pid)),
            false => Err(format!("{len} bytes hold no {rings} rings of {slots} slots")),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|half| u32::from_ne_bytes(*half))
}

/// The writer's view of the memory.
#[derive(Debug)]
struct Map(MmapRaw);

impl Map {
    /// The word at this offset, a multiple of 8.
    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at % 8 == 0 && at + 8 <= self.0.len());
        // SAFETY: within the map and aligned, as was just checked; the map lives as long as `self`,
        // and this process reaches it through atomics only.
        unsafe { &*self.0.as_mut_ptr().add(at).cast::<AtomicU64>() }
    }

    /// The half word at this offset, a multiple of 4.
    fn half(&self, at: usize) -> &AtomicU32 {
        assert!(at % 4 == 0 && at + 4 <= self.0.len());
        // SAFETY: as for `word`.
        unsafe { &*self.0.as_mut_ptr().add(at).cast::<AtomicU32>() }
    }
}

/// What a process publishes. The file goes away when it is dropped; after a crash the next segment
/// of that name replaces it.
#[derive(Debug)]
pub struct Segment {
    map: Arc<Map>,
    layout: Layout,
    path: PathBuf,
}

impl Segment {
    /// For so many threads, each with room for `slots` records (rounded up to a power of two).
    ///
    /// # Errors
    /// [`BroadcastError::File`] where the memory cannot be made.
    pub fn create(
        path: PathBuf,
        format: &Format,
        threads: u32,
        slots: u32,
    ) -> Result<Self, BroadcastError> {
        let layout = Layout {
            rings: threads.clamp(1, MOST_RINGS),
            slots: slots.clamp(2, MOST_SLOTS).next_power_of_two(),
            words: format.words.clamp(1, MOST_WORDS),
        };
        let made = (|| {
            // Left by a process of the same number that crashed.
            drop(fs::remove_file(&path));
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            file.set_len(layout.bytes() as u64)?;
            MmapOptions::new().len(layout.bytes()).map_raw(&file).map(Map)
        })();
        let map = made.map_err(|error| BroadcastError::File { path: path.clone(), error })?;
        let head = [VERSION, layout.rings, layout.slots, process::id(), layout.words];
        for (at, number) in (8..).step_by(4).zip(head) {
            map.half(at).store(number, Ordering::Relaxed);
        }
        // Last: who sees it sees the rest.
        map.word(0).store(u64::from_ne_bytes(format.magic), Ordering::Release);
        Ok(Self { map: Arc::new(map), layout, path })
    }

    /// A ring for the calling thread; `None` where all are taken.
    pub fn writer(&self) -> Option<Writer> {
        let tid = u32::try_from(sched::thread_id()).ok()?;
        let rings = (0..self.layout.rings as usize).map(|i| LINE + i * self.layout.ring());
        let ring = rings.into_iter().find(|at| {
            let owner = self.map.half(at + 8);
            owner.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        let written = self.map.word(ring).load(Ordering::Relaxed);
        Some(Writer { map: Arc::clone(&self.map), layout: self.layout, ring, written })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

/// One thread's ring. Its owner is the only one who writes it.
#[derive(Debug)]
pub struct Writer {
    map: Arc<Map>,
    layout: Layout,
    ring: usize,
    written: u64,
}

impl Writer {
    /// Publishes a record: a store per word and three more, no lock and no system call. Words that
    /// are not given keep what an older record left there; those that are too many are left out.
    #[inline]
    pub fn write(&mut self, words: &[u64]) {
        let slot = self.ring + self.layout.at(self.written);
        self.written += 1;
        let seq = self.map.word(slot);
        seq.store(0, Ordering::Relaxed);
        // A reader that sees any of what follows must see that the slot is being written.
        fence(Ordering::Release);
        for (at, word) in words.iter().take(self.layout.words as usize).enumerate() {
            self.map.word(slot + 8 + at * 8).store(*word, Ordering::Relaxed);
        }
        seq.store(self.written, Ordering::Release);
        self.map.word(self.ring).store(self.written, Ordering::Release);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // For the next thread; what is in it stays readable until then.
        self.map.half(self.ring + 8).store(0, Ordering::Release);
    }
}

/// A record that was read.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The thread that published it.
    pub tid: u32,
    bytes: &'a [u8],
}

impl Record<'_> {
    /// One of its words; 0 beyond the last.
    pub fn word(&self, at: usize) -> u64 {
        word(self.bytes, at * 8).unwrap_or(0)
    }
}

/// Follows what a process publishes.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
    layout: Layout,
    pid: u32,
    /// Of each ring, how many records were read or missed.
    taken: Vec<u64>,
    missed: u64,
    bytes: Vec<u8>,
}

impl Reader {
    /// Opens what a process publishes; what it had published before is passed over.
    ///
    /// # Errors
    /// [`BroadcastError`] where there is nothing, or something else.
    pub fn open(path: &Path, format: &Format) -> Result<Self, BroadcastError> {
        let failed = |error| BroadcastError::File { path: path.to_owned(), error };
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.size();
        let mut head = [0; LINE];
        let read = file.read_at(&mut head, 0).map_err(failed)?;
        let (layout, pid) = Layout::parse(&head[..read], len, format)
            .map_err(|why| BroadcastError::Format { path: path.to_owned(), why })?;
        let taken = vec![0; layout.rings as usize];
        let bytes = Vec::new();
        let path = path.to_owned();
        let mut reader = Self { file, path, layout, pid, taken, missed: 0, bytes };
        for ring in 0..reader.taken.len() {
            reader.taken[ring] = reader.head(ring)?.0;
        }
        Ok(reader)
    }

    /// The process that made it, as it says.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Records that were overwritten before they were read.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Hands over the records since the last call, those of each thread in their order.
    ///
    /// # Errors
    /// [`BroadcastError::File`] where it cannot be read any more.
    pub fn read(&mut self, mut each: impl FnMut(Record<'_>)) -> Result<(), BroadcastError> {
        for ring in 0..self.taken.len() {
            let taken = self.taken[ring];
            let (head, tid) = self.head(ring)?;
            if head == taken {
                continue;
            }
            // A head that went back is a writer's error, or a new writer's: begin anew.
            let from = if head < taken { 0 } else { taken };
            let numbers = from.max(head.saturating_sub(self.layout.slots.into()))..head;
            self.copy(ring, &numbers)?;
            // What may have been overwritten while it was read is told by the head afterwards.
            let written = self.head(ring)?.0.max(head);
            let slots = self.bytes.chunks_exact(self.layout.slot());
            let slots = numbers.clone().zip(slots);
            let mut read = 0;
            for bytes in whole(slots, self.layout, &numbers, written) {
                read += 1;
                each(Record { tid, bytes });
            }
            self.missed = self.missed.saturating_add(head - from - read);
            self.taken[ring] = head;
        }
        Ok(())
    }

    fn read_at(&self, at: usize, bytes: &mut [u8]) -> Result<(), BroadcastError> {
        let read = self.file.read_exact_at(bytes, at as u64);
        read.map_err(|error| BroadcastError::File { path: self.path.clone(), error })
    }

    /// A ring's head and its thread.
    fn head(&self, ring: usize) -> Result<(u64, u32), BroadcastError> {
        let mut bytes = [0; 12];
        self.read_at(LINE + ring * self.layout.ring(), &mut bytes)?;
        Ok((word(&bytes, 0).unwrap_or(0), half(&bytes, 8).unwrap_or(0)))
    }

    /// Copies the slots of these numbers, no more than there are, in their order.
    fn copy(&mut self, ring: usize, numbers: &Range<u64>) -> Result<(), BroadcastError> {
        let (slot, ring) = (self.layout.slot(), LINE + ring * self.layout.ring());
        let count = (numbers.end - numbers.start) as usize;
        let first = self.layout.at(numbers.start);
        let until_end = (self.layout.ring() - first) / slot;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(count * slot, 0);
        let (before, after) = bytes.split_at_mut(count.min(until_end) * slot);
        let copied = self.read_at(ring + first, before);
        let copied = copied.and_then(|()| self.read_at(ring + LINE, after));
        self.bytes = bytes;
        copied
    }
}

/// The records of a segment that is not being written.
///
/// # Errors
/// Why it is none.
pub fn parse(
    bytes: &[u8],
    format: &Format,
    mut each: impl FnMut(Record<'_>),
) -> Result<(), String> {
    let (layout, _) = Layout::parse(bytes, bytes.len() as u64, format)?;
    let rings = bytes.get(LINE..).unwrap_or_default().chunks_exact(layout.ring());
    for ring in rings.take(layout.rings as usize) {
        let (head, tid) = (word(ring, 0).unwrap_or(0), half(ring, 8).unwrap_or(0));
        let numbers = head.saturating_sub(layout.slots.into())..head;
        let slots = numbers.clone().filter_map(|number| {
            let at = layout.at(number);
            Some((number, ring.get(at..at + layout.slot())?))
        });
        whole(slots, layout, &numbers, head).for_each(|bytes| each(Record { tid, bytes }));
    }
    Ok(())
}

/// Of copied slots and the numbers of the records expected in them: the words of those that hold
/// them and that none of the `written` records has replaced meanwhile or is about to.
fn whole<'a>(
    slots: impl Iterator<Item = (u64, &'a [u8])>,
    layout: Layout,
    numbers: &Range<u64>,
    written: u64,
) -> impl Iterator<Item = &'a [u8]> {
    // The slot of number `written` may be half written already, unless nothing was written at all.
    let safe = match written > numbers.end {
        true => written.saturating_add(1).saturating_sub(layout.slots.into()),
        false => 0,
    };
    slots.filter_map(move |(number, slot)| {
        let is_it = number >= safe && word(slot, 0) == number.checked_add(1);
        is_it.then(|| slot.get(8..)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const PAIRS: Format = Format { magic: *b"qcTEST\x1a\0", words: 2 };

    fn path(name: &str) -> PathBuf {
        format!("/dev/shm/quietcore-test.{}.{name}", process::id()).into()
    }

    fn segment(name: &str, threads: u32, slots: u32) -> Segment {
        Segment::create(path(name), &PAIRS, threads, slots).unwrap()
    }

    fn read(reader: &mut Reader) -> Vec<[u64; 2]> {
        let mut pairs = Vec::new();
        reader.read(|record| pairs.push([record.word(0), record.word(1)])).unwrap();
        pairs
    }

    #[test]
    fn what_is_published_is_read_once_and_in_order() {
        let segment = segment("order", 2, 8);
        let mode = fs::metadata(segment.path()).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let mut writer = segment.writer().unwrap();
        let mut reader = Reader::open(segment.path(), &PAIRS).unwrap();
        assert_eq!((read(&mut reader), reader.pid()), (vec![], process::id()));
        // More words than fit are left out.
        writer.write(&[1, 2, 3]);
        writer.write(&[4, 5]);
        let mut parsed = 0;
        parse(&fs::read(segment.path()).unwrap(), &PAIRS, |_| parsed += 1).unwrap();
        assert_eq!(parsed, 2);
        assert_eq!(read(&mut reader), [[1, 2], [4, 5]]);
        assert_eq!((read(&mut reader), reader.missed()), (vec![], 0));
        // Around the end of the ring.
        (0..7).for_each(|n| writer.write(&[n, n]));
        let firsts: Vec<_> = read(&mut reader).iter().map(|pair| pair[0]).collect();
        assert_eq!((firsts, reader.missed()), (vec![0, 1, 2, 3, 4, 5, 6], 0));
    }

    #[test]
    fn what_was_overwritten_is_counted() {
        let segment = segment("missed", 1, 4);
        let mut writer = segment.writer().unwrap();
        let mut reader = Reader::open(segment.path(), &PAIRS).unwrap();
        (1..=10).for_each(|n| writer.write(&[n, n]));
        let firsts: Vec<_> = read(&mut reader).iter().map(|pair| pair[0]).collect();
        assert_eq!((firsts, reader.missed()), (vec![7, 8, 9, 10], 6));
    }

    #[test]
    fn a_ring_is_one_threads_until_that_lets_go() {
        let segment = segment("rings", 1, 4);
        let first = segment.writer().unwrap();
        assert!(segment.writer().is_none());
        drop(first);
        assert!(segment.writer().is_some());
        let path = segment.path().to_owned();
        drop(segment);
        assert!(!path.exists());
    }

    #[test]
    fn nothing_torn_is_read_while_it_is_written() {
        let segment = segment("torn", 1, 4);
        let mut writer = segment.writer().unwrap();
        let mut reader = Reader::open(segment.path(), &PAIRS).unwrap();
        const RECORDS: u64 = 200_000;
        let writer = thread::spawn(move || (1..=RECORDS).for_each(|n| writer.write(&[n, n * 5])));
        let mut count = 0;
        let mut last = false;
        loop {
            for [a, b] in read(&mut reader) {
                assert_eq!(b, a * 5);
                count += 1;
            }
            if last {
                break;
            }
            last = writer.is_finished();
        }
        writer.join().unwrap();
        assert_eq!(count + reader.missed(), RECORDS);
    }

    #[test]
    fn what_is_no_segment_is_refused() {
        let path = path("none");
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            Reader::open(&path, &PAIRS).unwrap_err().to_string()
        };
        assert!(refused(b"").contains("does not begin"));
        let head = |version: u32, rings: u32, slots: u32, words: u32| {
            let mut head = PAIRS.magic.to_vec();
            [version, rings, slots, 1, words].iter().for_each(|n| head.extend(n.to_ne_bytes()));
            head.resize(LINE, 0);
            head
        };
        assert!(refused(&head(3, 1, 4, 2)).contains("version 3"));
        assert!(refused(&head(2, 1, 4, 3)).contains("3 words, not of 2"));
        assert!(refused(&head(2, 1, 3, 2)).contains("1 rings of 3 slots"));
        assert!(refused(&head(2, 1, 1 << 20, 2)).contains("64 bytes hold no"));
        assert!(refused(&head(2, u32::MAX, 4, 2)).contains("rings"));
        assert!(refused(&head(2, 0, 4, 2)[..20]).contains("too short"));
        fs::remove_file(&path).unwrap();
    }
}
