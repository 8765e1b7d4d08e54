//! Spans that a running program publishes in shared memory, for whoever watches it.
//!
//! A [`Segment`] per program, a [`Recorder`] per thread, a [`Reader`] in another process. The file is
//! `quietcore-live.PID` in `/dev/shm`, of the layout that [`broadcast`] documents
//! for writers in other languages; its magic is `qcLIVE\x1a\0` and a record is
//! `{ u64 start, end, kind; }`, both times CLOCK_MONOTONIC in nanoseconds, the kind below 2³².

use std::path::{Path, PathBuf};
use std::process;

use crate::broadcast::{self, BroadcastError, Format, Record};

const FORMAT: Format = Format { magic: *b"qcLIVE\x1a\0", words: 3 };

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

impl LiveSpan {
    /// `None` where it ends before it begins: nothing a program says is taken on trust.
    fn of(record: Record<'_>) -> Option<Self> {
        let [start_ns, end_ns, kind] = [0, 1, 2].map(|at| record.word(at));
        let kind = u32::try_from(kind).ok()?;
        (start_ns <= end_ns).then_some(Self { tid: record.tid, kind, start_ns, end_ns })
    }
}

/// Where a process publishes.
pub fn path_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/quietcore-live.{pid}"))
}

/// What a process publishes.
#[derive(Debug)]
pub struct Segment(broadcast::Segment);

impl Segment {
    /// For so many threads, each with room for `slots` spans (rounded up to a power of two).
    ///
    /// # Errors
    /// [`BroadcastError::File`] where the memory cannot be made.
    pub fn create(threads: u32, slots: u32) -> Result<Self, BroadcastError> {
        let path = path_of(process::id());
        broadcast::Segment::create(path, &FORMAT, threads, slots).map(Self)
    }

    /// A ring for the calling thread; `None` where all are taken.
    pub fn recorder(&self) -> Option<Recorder> {
        self.0.writer().map(Recorder)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// One thread's ring.
#[derive(Debug)]
pub struct Recorder(broadcast::Writer);

impl Recorder {
    /// Publishes a span: six stores into memory of this thread, no lock and no system call.
    #[inline]
    pub fn record(&mut self, kind: u32, start_ns: u64, end_ns: u64) {
        self.0.write(&[start_ns, end_ns, kind.into()]);
    }
}

/// Follows what a process publishes.
#[derive(Debug)]
pub struct Reader {
    records: broadcast::Reader,
    refused: u64,
}

impl Reader {
    /// Opens what a process publishes; what it had published before is passed over.
    ///
    /// # Errors
    /// [`BroadcastError`] where there is nothing, or something else.
    pub fn open(pid: u32) -> Result<Self, BroadcastError> {
        Self::open_at(&path_of(pid))
    }

    /// The same, from a file.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_at(path: &Path) -> Result<Self, BroadcastError> {
        Ok(Self { records: broadcast::Reader::open(path, &FORMAT)?, refused: 0 })
    }

    /// The process that made it, as it says.
    pub fn pid(&self) -> u32 {
        self.records.pid()
    }

    /// Spans that were overwritten before they were read, and those that cannot be.
    pub fn missed(&self) -> u64 {
        self.records.missed().saturating_add(self.refused)
    }

    /// The spans since the last call, in the order in which they ended.
    ///
    /// # Errors
    /// [`BroadcastError::File`] where it cannot be read any more.
    pub fn spans(&mut self) -> Result<Vec<LiveSpan>, BroadcastError> {
        let (mut spans, refused) = (Vec::new(), &mut self.refused);
        self.records.read(|record| match LiveSpan::of(record) {
            Some(span) => spans.push(span),
            None => *refused += 1,
        })?;
        spans.sort_by_key(|span| span.end_ns);
        Ok(spans)
    }
}

/// The spans of a segment that is not being written.
///
/// # Errors
/// Why it is none.
pub fn parse(bytes: &[u8]) -> Result<Vec<LiveSpan>, String> {
    let mut spans = Vec::new();
    broadcast::parse(bytes, &FORMAT, |record| spans.extend(LiveSpan::of(record)))?;
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sched;

    #[test]
    fn spans_are_read_in_the_order_in_which_they_ended() {
        let segment = Segment::create(1, 8).unwrap();
        let mut recorder = segment.recorder().unwrap();
        let mut reader = Reader::open(process::id()).unwrap();
        recorder.record(7, 10, 50);
        recorder.record(8, 31, 40);
        // It ends before it begins.
        recorder.record(9, 31, 30);
        assert_eq!(parse(&fs::read(segment.path()).unwrap()).unwrap().len(), 2);
        let spans = reader.spans().unwrap();
        let brief: Vec<_> = spans.iter().map(|s| (s.kind, s.start_ns, s.end_ns)).collect();
        assert_eq!(brief, [(8, 31, 40), (7, 10, 50)]);
        assert_eq!(spans[0].tid, u32::try_from(sched::thread_id()).unwrap());
        assert_eq!((reader.spans().unwrap(), reader.missed()), (vec![], 1));
    }
}
