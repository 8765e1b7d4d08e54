//! Where a message's time went.
//!
//! A message's way ends when the book holds it and begins when the kernel got its last byte. What
//! was done for it alone are its stages; the rest of that time it waited for messages of the same
//! read that came before it, and that is `queue`. So the stages of every message add up to its
//! total, exactly, whatever a read held.
//!
//! The hot thread stores ticks in a [`ring()`], without a lock, an allocation or a system call;
//! another thread drains it and counts.

mod ring;

use quietcore_measure::{Hist, HistConfig};
use quietcore_sys::tsc::Rate;

pub use ring::{Drain, Passed, Recorder, ring};

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
}
