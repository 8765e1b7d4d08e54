//! Spans that a running program publishes in shared memory, for whoever watches it.
//!
//! A program makes one [`Segment`] and one [`Recorder`] per thread; recording a span is a few stores
//! into memory of its own, without a lock and without a system call. A [`Reader`] in another process
//! reads the same memory and follows. The oldest spans are overwritten; the reader counts what it
//! missed, and takes nothing that it reads on trust. It does not map the file: whoever owns that could
//! cut it short, which ends a program that has it mapped.
//!
//! The layout, for writers in other languages: all numbers in the machine's order, all times
//! CLOCK_MONOTONIC in nanoseconds. The file `quietcore-live.PID` in `/dev/shm` begins with
//! `{ u64 magic; u32 version, rings, slots, pid; }`, padded to 64 bytes. `rings` rings follow, each
//! `{ u64 head; u32 tid; }` padded to 64 bytes and then `slots` slots (a power of two) of
//! `{ u64 seq, start, end; u32 kind, spare; }`. To record span number `n` (from 1): store 0 to the
//! slot's `seq` (slot `(n - 1) % slots`), then (release) the span, then (release) `n` to `seq` and to
//! `head`. A ring whose `tid` is 0 is free.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::{io, process};

use memmap2::{MmapOptions, MmapRaw};

use crate::sched;

/// "qcLIVE" and two bytes that text does not hold.
const MAGIC: u64 = u64::from_ne_bytes(*b"qcLIVE\x1a\0");
const VERSION: u32 = 1;
const LINE: usize = 64;
const SLOT: usize = 32;
/// More of either is garbage.
const MOST_RINGS: u32 = 4_096;
const MOST_SLOTS: u32 = 1 << 20;

/// One span of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSpan {
    /// The thread.
    pub tid: u32,
    /// What it was, in the program's own numbering.
    pub kind: u32,
    /// When it began, CLOCK_MONOTONIC in nanoseconds.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// Why a segment cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The file cannot be made, opened or mapped.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It is not such a segment, or one of another version.
    #[error("{path}: not a segment of spans: {why}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    rings: u32,
    slots: u32,
}

impl Layout {
    fn ring(self) -> usize {
        LINE + self.slots as usize * SLOT
    }

    fn bytes(self) -> usize {
        LINE + self.rings as usize * self.ring()
    }

    /// From the first bytes of a segment of this length.
    fn parse(head: &[u8], len: u64) -> Result<(Self, u32), String> {
        let u32_at = |at: usize| head.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b));
        let magic = head.first_chunk().map(|b| u64::from_ne_bytes(*b));
        if magic != Some(MAGIC) {
            return Err("it does not begin as one".to_owned());
        }
        let number = |at| u32_at(at).ok_or_else(|| "it is too short".to_owned());
        let (version, rings, slots, pid) = (number(8)?, number(12)?, number(16)?, number(20)?);
        if version != VERSION {
            return Err(format!("version {version}, known is {VERSION}"));
        }
        if rings > MOST_RINGS || slots > MOST_SLOTS || !slots.is_power_of_two() {
            return Err(format!("{rings} rings of {slots} slots"));
        }
        let layout = Self { rings, slots };
        match layout.bytes() as u64 <= len {
            true => Ok((layout, pid)),
            false => Err(format!("{len} bytes hold no {rings} rings of {slots} slots")),
        }
    }
}

/// The writer's view of the memory.
#[derive(Debug)]
struct Map(MmapRaw);

impl Map {
    /// The word at this offset, a multiple of 8.
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

/// Where a process publishes.
pub fn path_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/quietcore-live.{pid}"))
}

/// What a process publishes. The file goes away when it is dropped; after a crash the next process
/// of that number replaces it.
#[derive(Debug)]
pub struct Segment {
    map: Arc<Map>,
    layout: Layout,
    path: PathBuf,
}

impl Segment {
    /// For so many threads, each with room for `slots` spans (rounded up to a power of two).
    ///
    /// # Errors
    /// [`LiveError::File`] where the memory cannot be made.
    pub fn create(threads: u32, slots: u32) -> Result<Self, LiveError> {
        Self::create_at(path_of(process::id()), threads, slots)
    }

    fn create_at(path: PathBuf, threads: u32, slots: u32) -> Result<Self, LiveError> {
        let layout = Layout {
            rings: threads.clamp(1, MOST_RINGS),
            slots: slots.clamp(2, MOST_SLOTS).next_power_of_two(),
        };
        let made = (|| {
            // Left by a process of the same number that crashed.
            drop(fs::remove_file(&path));
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            file.set_len(layout.bytes() as u64)?;
            MmapOptions::new().len(layout.bytes()).map_raw(&file).map(Map)
        })();
        let map = made.map_err(|error| LiveError::File { path: path.clone(), error })?;
        map.half(8).store(VERSION, Ordering::Relaxed);
        map.half(12).store(layout.rings, Ordering::Relaxed);
        map.half(16).store(layout.slots, Ordering::Relaxed);
        map.half(20).store(process::id(), Ordering::Relaxed);
        // Last: who sees it sees the rest.
        map.word(0).store(MAGIC, Ordering::Release);
        Ok(Self { map: Arc::new(map), layout, path })
    }

    /// A ring for the calling thread; `None` where all are taken.
    pub fn recorder(&self) -> Option<Recorder> {
        let tid = u32::try_from(sched::thread_id()).ok()?;
        let (ring, mask) = (self.layout.ring(), u64::from(self.layout.slots) - 1);
        let at = (0..self.layout.rings as usize).map(|i| LINE + i * ring).find(|at| {
            let owner = self.map.half(at + 8);
            owner.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        let written = self.map.word(at).load(Ordering::Relaxed);
        Some(Recorder { map: Arc::clone(&self.map), ring: at, mask, written })
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
pub struct Recorder {
    map: Arc<Map>,
    ring: usize,
    mask: u64,
    written: u64,
}

impl Recorder {
    /// Publishes a span: six stores into memory of this thread, no lock and no system call.
    #[inline]
    pub fn record(&mut self, kind: u32, start_ns: u64, end_ns: u64) {
        let slot = self.ring + LINE + (self.written & self.mask) as usize * SLOT;
        self.written += 1;
        let seq = self.map.word(slot);
        seq.store(0, Ordering::Relaxed);
        // A reader that sees any of what follows must see that the slot is being written.
        fence(Ordering::Release);
        self.map.word(slot + 8).store(start_ns, Ordering::Relaxed);
        self.map.word(slot + 16).store(end_ns, Ordering::Relaxed);
        self.map.half(slot + 24).store(kind, Ordering::Relaxed);
        seq.store(self.written, Ordering::Release);
        self.map.word(self.ring).store(self.written, Ordering::Release);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // For the next thread; what is in it stays readable until then.
        self.map.half(self.ring + 8).store(0, Ordering::Release);
    }
}

/// Follows what a process publishes.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
    layout: Layout,
    pid: u32,
    /// Of each ring, how many spans were read or missed.
    taken: Vec<u64>,
    missed: u64,
}

impl Reader {
    /// Opens what a process publishes; what it had published before is passed over.
    ///
    /// # Errors
    /// [`LiveError`] where there is nothing, or something else.
    pub fn open(pid: u32) -> Result<Self, LiveError> {
        Self::open_at(&path_of(pid))
    }

    /// The same, from a file.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_at(path: &Path) -> Result<Self, LiveError> {
        let failed = |error| LiveError::File { path: path.to_owned(), error };
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.size();
        let mut head = [0; LINE];
        let read = file.read_at(&mut head, 0).map_err(failed)?;
        let (layout, pid) = Layout::parse(&head[..read], len)
            .map_err(|why| LiveError::Format { path: path.to_owned(), why })?;
        let taken = vec![0; layout.rings as usize];
        let mut reader = Self { file, path: path.to_owned(), layout, pid, taken, missed: 0 };
        for ring in 0..reader.taken.len() {
            reader.taken[ring] = reader.head(ring)?;
        }
        Ok(reader)
    }

    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), LiveError> {
        let read = self.file.read_exact_at(bytes, at as u64);
        read.map_err(|error| LiveError::File { path: self.path.clone(), error })
    }

    fn head(&self, ring: usize) -> Result<u64, LiveError> {
        let mut word = [0; 8];
        self.read(LINE + ring * self.layout.ring(), &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// The process that made it, as it says.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Spans that were overwritten before they were read.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The spans since the last call, in the order in which they ended.
    ///
    /// # Errors
    /// [`LiveError::File`] where it cannot be read any more.
    pub fn spans(&mut self) -> Result<Vec<LiveSpan>, LiveError> {
        let mut spans = Vec::new();
        let mut bytes = vec![0; self.layout.ring()];
        for ring in 0..self.taken.len() {
            let (taken, head) = (self.taken[ring], self.head(ring)?);
            if head == taken {
                continue;
            }
            self.read(LINE + ring * self.layout.ring(), &mut bytes)?;
            // What may have been overwritten while it was read is told by the head afterwards.
            let written = self.head(ring)?.max(head);
            // A head that went back is a writer's error, or a new writer's: begin anew.
            let from = if head < taken { 0 } else { taken };
            let before = spans.len();
            ring_spans(&bytes, self.layout.slots, from..head, written, &mut spans);
            self.missed = self.missed.saturating_add(head - from - (spans.len() - before) as u64);
            self.taken[ring] = head;
        }
        spans.sort_by_key(|span| span.end_ns);
        Ok(spans)
    }
}

/// The spans of a segment that is not being written.
///
/// # Errors
/// Why it is none.
pub fn parse(bytes: &[u8]) -> Result<Vec<LiveSpan>, String> {
    let (layout, _) = Layout::parse(bytes, bytes.len() as u64)?;
    let mut spans = Vec::new();
    let rings = bytes.get(LINE..).unwrap_or_default().chunks_exact(layout.ring());
    for ring in rings.take(layout.rings as usize) {
        let head = ring.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        ring_spans(ring, layout.slots, 0..head, head, &mut spans);
    }
    Ok(spans)
}

/// Of a ring, the spans of these numbers (from 0) that no later one, of `written`, has replaced or is
/// about to, and that do not end before they begin.
fn ring_spans(
    ring: &[u8],
    slots: u32,
    numbers: Range<u64>,
    written: u64,
    spans: &mut Vec<LiveSpan>,
) {
    let u64_at = |at: usize| ring.get(at..)?.first_chunk().map(|b| u64::from_ne_bytes(*b));
    let u32_at = |at: usize| ring.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b));
    let slots = u64::from(slots);
    // The slot of number `written` may be half written already.
    let safe =
        if written > numbers.end { written.saturating_add(1).saturating_sub(slots) } else { 0 };
    let oldest = numbers.end.saturating_sub(slots).max(numbers.start).max(safe);
    let tid = u32_at(8).unwrap_or_default();
    let span = |number: u64| {
        let at = LINE + (number & (slots - 1)) as usize * SLOT;
        let is_it = u64_at(at)? == number + 1;
        let (start_ns, end_ns, kind) = (u64_at(at + 8)?, u64_at(at + 16)?, u32_at(at + 24)?);
        (is_it && start_ns <= end_ns).then_some(LiveSpan { tid, kind, start_ns, end_ns })
    };
    spans.extend((oldest..numbers.end).filter_map(span));
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn segment(name: &str, threads: u32, slots: u32) -> Segment {
        let path = format!("/dev/shm/quietcore-live-test.{}.{name}", process::id());
        Segment::create_at(path.into(), threads, slots).unwrap()
    }

    #[test]
    fn what_is_recorded_is_read_once_and_in_order() {
        let segment = segment("order", 2, 8);
        let mode = fs::metadata(segment.path()).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let mut recorder = segment.recorder().unwrap();
        let mut reader = Reader::open_at(segment.path()).unwrap();
        assert_eq!((reader.spans().unwrap(), reader.pid()), (vec![], process::id()));
        recorder.record(7, 10, 30);
        recorder.record(8, 31, 40);
        assert_eq!(parse(&fs::read(segment.path()).unwrap()).unwrap().len(), 2);
        let spans = reader.spans().unwrap();
        let brief: Vec<_> = spans.iter().map(|s| (s.kind, s.start_ns, s.end_ns)).collect();
        assert_eq!(brief, [(7, 10, 30), (8, 31, 40)]);
        assert_eq!(spans[0].tid, u32::try_from(sched::thread_id()).unwrap());
        assert_eq!((reader.spans().unwrap(), reader.missed()), (vec![], 0));
    }

    #[test]
    fn what_was_overwritten_is_counted() {
        let segment = segment("missed", 1, 4);
        let mut recorder = segment.recorder().unwrap();
        let mut reader = Reader::open_at(segment.path()).unwrap();
        (1..=10).for_each(|n| recorder.record(0, n, n));
        let ends: Vec<u64> = reader.spans().unwrap().iter().map(|span| span.end_ns).collect();
        assert_eq!((ends, reader.missed()), (vec![7, 8, 9, 10], 6));
    }

    #[test]
    fn a_ring_is_one_threads_until_that_lets_go() {
        let segment = segment("rings", 1, 4);
        let first = segment.recorder().unwrap();
        assert!(segment.recorder().is_none());
        drop(first);
        assert!(segment.recorder().is_some());
        let path = segment.path().to_owned();
        drop(segment);
        assert!(!path.exists());
    }

    #[test]
    fn nothing_torn_is_read_while_it_is_written() {
        let segment = segment("torn", 1, 4);
        let mut recorder = segment.recorder().unwrap();
        let mut reader = Reader::open_at(segment.path()).unwrap();
        const SPANS: u64 = 200_000;
        let writer = thread::spawn(move || {
            (1..=SPANS).for_each(|n| recorder.record(n as u32, n * 3, n * 5));
        });
        let mut read = 0;
        let mut last = false;
        loop {
            for span in reader.spans().unwrap() {
                let n = u64::from(span.kind);
                assert_eq!((span.start_ns, span.end_ns), (n * 3, n * 5));
                read += 1;
            }
            if last {
                break;
            }
            last = writer.is_finished();
        }
        writer.join().unwrap();
        assert_eq!(read + reader.missed(), SPANS);
    }

    #[test]
    fn what_is_no_segment_is_refused() {
        let path = std::env::temp_dir().join(format!("quietcore-live-none.{}", process::id()));
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            Reader::open_at(&path).unwrap_err().to_string()
        };
        assert!(refused(b"").contains("does not begin"));
        let head = |version: u32, rings: u32, slots: u32| {
            let mut head = MAGIC.to_ne_bytes().to_vec();
            [version, rings, slots, 1].iter().for_each(|n| head.extend(n.to_ne_bytes()));
            head.resize(LINE, 0);
            head
        };
        assert!(refused(&head(2, 1, 4)).contains("version 2"));
        assert!(refused(&head(1, 1, 3)).contains("1 rings of 3 slots"));
        assert!(refused(&head(1, 1, 1 << 20)).contains("64 bytes hold no"));
        assert!(refused(&head(1, u32::MAX, 4)).contains("rings"));
        assert!(refused(&head(1, 0, 4)[..20]).contains("too short"));
        fs::remove_file(&path).unwrap();
    }
}
