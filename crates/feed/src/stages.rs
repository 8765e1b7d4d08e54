//! Where a message's time went.
//!
//! A message's way ends when the book holds it and begins when the kernel got its last byte. What
//! was done for it alone are its stages; the rest of that time it waited for messages of the same
//! read that came before it, and that is `queue`. So the stages of every message add up to its
//! total, exactly, whatever a read held.
//!
//! The hot thread stores ticks in a [`ring()`], without a lock, an allocation or a system call;
//! another thread drains it and counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use quietcore_measure::{Hist, HistConfig};
use quietcore_sys::tsc::Rate;

/// A part of a message's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// S0: from the kernel's stamp until the thread runs.
    Wake,
    /// S1: from there until the bytes are in our memory. A spinning thread cannot tell it from S0:
    /// there it is nothing, and S0 has both.
    Read,
    /// S2: decrypting its record.
    Tls,
    /// S3: finding its frame.
    WebSocket,
    /// S4: understanding its text.
    Json,
    /// S5: the sequence rules and the book.
    Book,
    /// Waiting for others of the same read.
    Queue,
}

impl Stage {
    /// All, in the order in which a message passes them.
    pub const ALL: [Self; 7] =
        [Self::Wake, Self::Read, Self::Tls, Self::WebSocket, Self::Json, Self::Book, Self::Queue];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wake => "S0 wake",
            Self::Read => "S1 read",
            Self::Tls => "S2 tls",
            Self::WebSocket => "S3 websocket",
            Self::Json => "S4 json",
            Self::Book => "S5 book",
            Self::Queue => "queue",
        }
    }
}

/// What a message was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A book or a change of one.
    Depth,
    /// The best bid and ask.
    Quote,
    /// A trade.
    Trade,
    /// Anything else.
    Other,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Depth, Self::Quote, Self::Trade, Self::Other];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Quote => "quote",
            Self::Trade => "trade",
            Self::Other => "other",
        }
    }

    fn of(number: u64) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::Other)
    }
}

/// One message's way, in ticks but for what the kernel's stamp tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// From the kernel's stamp to the thread, in nanoseconds; `None` where there was no stamp.
    pub wake_ns: Option<u64>,
    /// From the thread to the bytes.
    pub read: u64,
    /// Its record or records.
    pub tls: u64,
    /// Its frame or frames.
    pub websocket: u64,
    /// Its text.
    pub json: u64,
    /// Its book.
    pub book: u64,
    /// From the bytes to the book: all of the three above and what it waited for others.
    pub since_read: u64,
}

/// The stages of one read, measured as it goes: call each method when that step has just ended.
///
/// Time comes in as ticks, so that this is a function of values.
#[derive(Clone, Copy, Debug)]
pub struct Laps {
    wake_ns: Option<u64>,
    read: u64,
    read_end: u64,
    last: u64,
    tls: u64,
    websocket: u64,
    json: u64,
}

impl Laps {
    /// A read ended at `now`, `read` ticks after the thread ran, which was `wake_ns` nanoseconds after
    /// the kernel had the bytes.
    pub fn read(now: u64, wake_ns: Option<u64>, read: u64) -> Self {
        Self { wake_ns, read, read_end: now, last: now, tls: 0, websocket: 0, json: 0 }
    }

    #[inline]
    fn lap(&mut self, now: u64) -> u64 {
        // Ticks of one thread on one CPU do not run backwards; a migration may make them.
        let lap = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        lap
    }

    /// A record was decrypted. `is_inside` says that a message had begun in the record before: that
    /// record was its, too.
    #[inline]
    pub fn tls(&mut self, now: u64, is_inside: bool) {
        let lap = self.lap(now);
        self.tls = if is_inside { self.tls + lap } else { lap };
    }

    /// Frames were looked for; whether or not a message was whole.
    #[inline]
    pub fn websocket(&mut self, now: u64) {
        self.websocket += self.lap(now);
    }

    /// A message's text was understood.
    #[inline]
    pub fn json(&mut self, now: u64) {
        self.json = self.lap(now);
    }

    /// The book has it: the message's way is at its end.
    #[inline]
    pub fn book(&mut self, now: u64) -> Way {
        let book = self.lap(now);
        let way = Way {
            wake_ns: self.wake_ns,
            read: self.read,
            tls: self.tls,
            websocket: self.websocket,
            json: self.json,
            book,
            since_read: self.last - self.read_end,
        };
        self.websocket = 0;
        self.json = 0;
        way
    }
}

/// A message's way takes one line of the cache: the hot thread's writes go through its caches, and what
/// they push out are the books.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

const UNKNOWN: u64 = u64::MAX;

/// The writing end of a ring of ways; for one thread.
#[derive(Debug)]
pub struct Recorder {
    lines: Arc<[Line]>,
    mask: u64,
    written: u64,
}

/// The reading end.
#[derive(Debug)]
pub struct Drain {
    lines: Arc<[Line]>,
    mask: u64,
    taken: u64,
    missed: u64,
}

/// What the ring holds of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// What it was.
    pub kind: Kind,
    /// Its way.
    pub way: Way,
}

/// A ring for so many messages (rounded up to a power of two). The oldest are overwritten; the
/// reader counts what it missed.
pub fn ring(messages: usize) -> (Recorder, Drain) {
    let slots = messages.clamp(2, 1 << 24).next_power_of_two();
    // The first line is the head: how many were written.
    let lines: Arc<[Line]> = (0..1 + slots).map(|_| Line::default()).collect();
    let mask = slots as u64 - 1;
    let recorder = Recorder { lines: Arc::clone(&lines), mask, written: 0 };
    (recorder, Drain { lines, mask, taken: 0, missed: 0 })
}

fn line(lines: &[Line], mask: u64, number: u64) -> Option<&[AtomicU64; 8]> {
    lines.get(1 + (number & mask) as usize).map(|line| &line.0)
}

/// The first word of a line: whose it is, and what the message was.
fn head(number: u64, kind: Kind) -> u64 {
    number << 2 | kind as u64
}

impl Recorder {
    /// Stores one message's way: ten stores.
    #[inline]
    pub fn record(&mut self, passed: &Passed) {
        let Some(line) = line(&self.lines, self.mask, self.written) else { return };
        // The number of the message before: that one lies in another line.
        line[0].store(self.written << 2, Ordering::Relaxed);
        self.written += 1;
        // A reader that sees any of what follows must see that the line is being written.
        fence(Ordering::Release);
        let way = &passed.way;
        let words = [
            way.wake_ns.unwrap_or(UNKNOWN),
            way.read,
            way.tls,
            way.websocket,
            way.json,
            way.book,
            way.since_read,
        ];
        for (slot, word) in line[1..].iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        line[0].store(head(self.written, passed.kind), Ordering::Release);
        self.lines[0].0[0].store(self.written, Ordering::Release);
    }
}

impl Drain {
    /// Hands over what was recorded since the last call, oldest first.
    pub fn drain(&mut self, mut each: impl FnMut(Passed)) {
        let head = self.lines[0].0[0].load(Ordering::Acquire);
        let oldest = head.saturating_sub(self.mask + 1);
        self.missed += oldest.saturating_sub(self.taken);
        for number in self.taken.max(oldest)..head {
            match self.line(number) {
                Some(passed) => each(passed),
                None => self.missed += 1,
            }
        }
        self.taken = head;
    }

    fn line(&self, number: u64) -> Option<Passed> {
        let line = line(&self.lines, self.mask, number)?;
        let head = line[0].load(Ordering::Acquire);
        if head >> 2 != number + 1 {
            return None;
        }
        let mut words = [0; 7];
        for (word, slot) in words.iter_mut().zip(&line[1..]) {
            *word = slot.load(Ordering::Relaxed);
        }
        // What was read before must not have been overwritten meanwhile.
        fence(Ordering::Acquire);
        let [wake_ns, read, tls, websocket, json, book, since_read] = words;
        (line[0].load(Ordering::Relaxed) == head).then(|| Passed {
            kind: Kind::of(head & 3),
            way: Way {
                wake_ns: (wake_ns != UNKNOWN).then_some(wake_ns),
                read,
                tls,
                websocket,
                json,
                book,
                since_read,
            },
        })
    }

    /// Messages that were overwritten before they were drained.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// What a way is in nanoseconds: the stages, which add up to the total. Without the kernel's stamp
/// S0 is unknown, and the total begins when the thread ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// By [`Stage::ALL`]; `None` is unknown.
    pub stages: [Option<u64>; 7],
    /// Their sum.
    pub total: u64,
}

impl Way {
    /// In nanoseconds. The total is converted once and `queue` is what is left of it, so that
    /// rounding cannot spoil the sum.
    pub fn times(&self, rate: Rate) -> Times {
        let [read, tls, websocket, json, book] =
            [self.read, self.tls, self.websocket, self.json, self.book].map(|t| rate.ns(t));
        let own = tls + websocket + json + book;
        // Each of the four is rounded down, so their sum is no more than that of the whole.
        let since_read = rate.ns(self.since_read).max(own);
        let stages = [self.wake_ns, Some(read), Some(tls), Some(websocket), Some(json), Some(book)];
        let mut all = [None; 7];
        all[..6].copy_from_slice(&stages);
        all[6] = Some(since_read - own);
        Times { stages: all, total: self.wake_ns.unwrap_or(0) + read + since_read }
    }
}

/// Histograms of every stage and of the total, by kind of message.
#[derive(Clone, Debug)]
pub struct StageHists {
    stages: Vec<Hist>,
    total: Hist,
    /// Messages that the kernel did not stamp: their total lacks S0 and is not counted.
    pub unstamped: u64,
    /// Messages whose stages do not add up to their total. There are none.
    pub not_adding_up: u64,
}

impl Default for StageHists {
    fn default() -> Self {
        let hist = || Hist::new(HistConfig::default());
        Self {
            stages: Stage::ALL.iter().map(|_| hist()).collect(),
            total: hist(),
            unstamped: 0,
            not_adding_up: 0,
        }
    }
}

impl StageHists {
    /// Counts one message.
    pub fn record(&mut self, times: &Times) {
        let sum: u64 = times.stages.iter().flatten().sum();
        self.not_adding_up += u64::from(sum != times.total);
        for (hist, stage) in self.stages.iter_mut().zip(times.stages) {
            if let Some(ns) = stage {
                hist.record(ns);
            }
        }
        match times.stages[0] {
            Some(_) => self.total.record(times.total),
            None => self.unstamped += 1,
        }
    }

    /// One stage, in nanoseconds.
    pub fn stage(&self, stage: Stage) -> &Hist {
        &self.stages[stage as usize]
    }

    /// The whole way of stamped messages, in nanoseconds.
    pub fn total(&self) -> &Hist {
        &self.total
    }

    /// Messages counted.
    pub fn messages(&self) -> u64 {
        self.total.count() + self.unstamped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two messages in one record, the second of which waits for the first.
    #[test]
    fn a_message_that_waits_for_another_is_charged_to_queue() {
        let mut laps = Laps::read(1_000, Some(50), 20);
        laps.tls(1_100, false);
        laps.websocket(1_110);
        laps.json(1_150);
        let first = laps.book(1_200);
        laps.websocket(1_205);
        laps.json(1_225);
        let second = laps.book(1_300);
        let ns = Rate::NANOSECOND;
        let stages = |way: Way| way.times(ns).stages.map(Option::unwrap);
        assert_eq!(stages(first), [50, 20, 100, 10, 40, 50, 0]);
        assert_eq!(stages(second), [50, 20, 100, 5, 20, 75, 100]);
        assert_eq!(second.times(ns).total, 50 + 20 + 300);
    }

    #[test]
    fn a_message_over_two_records_has_both() {
        let mut laps = Laps::read(0, None, 0);
        laps.tls(10, false);
        laps.websocket(13);
        laps.tls(23, true);
        laps.websocket(24);
        laps.json(30);
        let way = laps.book(31);
        assert_eq!((way.tls, way.websocket, way.json, way.book), (20, 4, 6, 1));
        assert_eq!(way.times(Rate::NANOSECOND).stages[6], Some(0));
        assert_eq!(way.times(Rate::NANOSECOND).stages[0], None);
    }

    proptest! {
        #[test]
        fn the_stages_add_up(
            wake in proptest::option::of(0u64..1 << 40),
            laps in proptest::collection::vec((0u8..4, 0u64..1 << 20), 1..50),
            hz in 1e8..5e9f64,
        ) {
            let rate = Rate::from_hz(hz);
            let mut now = 12_345;
            let mut timed = Laps::read(now, wake, 77);
            let mut hists = StageHists::default();
            for (step, ticks) in laps {
                now += ticks;
                match step {
                    0 => timed.tls(now, ticks & 1 == 0),
                    1 => timed.websocket(now),
                    2 => timed.json(now),
                    _ => hists.record(&timed.book(now).times(rate)),
                }
            }
            prop_assert_eq!(hists.not_adding_up, 0);
        }
    }

    fn passed(number: u64) -> Passed {
        let wake_ns = (number % 3 > 0).then_some(number);
        let way = Way { wake_ns, book: number, ..Way::default() };
        Passed { kind: Kind::of(number % 4), way }
    }

    #[test]
    fn what_is_recorded_is_drained_once_and_what_is_overwritten_is_counted() {
        let (mut recorder, mut drain) = ring(8);
        let mut seen = Vec::new();
        (0..5).for_each(|n| recorder.record(&passed(n)));
        drain.drain(|p| seen.push(p));
        (5..25).for_each(|n| recorder.record(&passed(n)));
        drain.drain(|p| seen.push(p));
        drain.drain(|p| seen.push(p));
        let expected: Vec<_> = (0..5).chain(17..25).map(passed).collect();
        assert_eq!(seen, expected);
        assert_eq!(drain.missed(), 12);
    }

    #[test]
    fn a_reader_beside_a_writer_sees_only_whole_messages() {
        let (mut recorder, mut drain) = ring(64);
        let writer = std::thread::spawn(move || {
            for number in 0..200_000 {
                recorder.record(&passed(number));
            }
        });
        let mut seen = 0;
        let mut last = None;
        let mut take = |p: Passed| {
            assert_eq!(p, passed(p.way.book));
            assert!(last.is_none_or(|last| last < p.way.book));
            last = Some(p.way.book);
            seen += 1;
        };
        while !writer.is_finished() {
            drain.drain(&mut take);
        }
        drain.drain(&mut take);
        writer.join().unwrap();
        assert_eq!(seen + drain.missed(), 200_000);
    }
}
