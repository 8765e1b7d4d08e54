//! A recorded market: `(receive time, JSON)` messages, played back as they came.
//!
//! The tape keeps its own book from the depth messages and the REST snapshots among them, so that a
//! snapshot can be served at any moment. It is ready for recordings with gaps: from a gap to the
//! next snapshot the book is what is known.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::book::{Digits, TrueBook};
use super::decimal::{self, ONE};
use super::source::{Event, Listing};
use super::stream::{Channel, Stream};
use crate::market::Side;

/// Messages read at the start to learn which instruments there are and what their books were.
const LOOK_AHEAD: usize = 20_000;
/// Depth messages kept for a snapshot that comes after what follows it.
const RECENT: usize = 256;

/// Where a recording's messages come from: receive time (ns since 1970) and JSON.
pub type Lines = Box<dyn Iterator<Item = (u64, Vec<u8>)> + Send>;

#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    e: Cow<'a, str>,
    #[serde(borrow)]
    s: Cow<'a, str>,
    #[serde(rename = "E", default)]
    time_ms: u64,
}

type Rows<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

#[derive(Deserialize)]
struct DepthText<'a> {
    #[serde(rename = "u")]
    last: u64,
    #[serde(default)]
    pu: Option<u64>,
    #[serde(borrow)]
    b: Rows<'a>,
    #[serde(borrow)]
    a: Rows<'a>,
}

#[derive(Deserialize)]
struct SnapshotText<'a> {
    #[serde(rename = "lastUpdateId")]
    last: u64,
    #[serde(borrow)]
    bids: Rows<'a>,
    #[serde(borrow)]
    asks: Rows<'a>,
}

/// Levels with prices and quantities in 1e-8.
#[derive(Clone, Debug, Default)]
struct Change {
    last: u64,
    previous: Option<u64>,
    levels: Vec<(Side, i64, i64)>,
    digits: Digits,
}

/// What a message was.
#[derive(Debug)]
enum Kind {
    Event { symbol: String, channel: Channel, time_ms: u64, depth: Option<Change> },
    Snapshot(Change),
}

#[derive(Debug)]
struct Line {
    received: u64,
    kind: Kind,
    text: String,
}

#[derive(Clone, Debug, Default)]
struct Taped {
    symbol: String,
    digits: Digits,
    book: TrueBook,
    oldest: TrueBook,
    /// Whether a snapshot is under the book.
    has_base: bool,
    is_broken: bool,
    recent: VecDeque<Change>,
}

/// A recording being played.
pub struct Tape {
    lines: Lines,
    ahead: VecDeque<Line>,
    instruments: Vec<Taped>,
    start: Option<u64>,
    time_ms: u64,
    skipped: u64,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Tape").field("ahead", &self.ahead.len()).finish_non_exhaustive()
    }
}

fn rows(side: Side, rows: &Rows<'_>, change: &mut Change) -> Option<()> {
    for (price, quantity) in rows {
        let (price, price_digits) = decimal::parse(price)?;
        let (quantity, quantity_digits) = decimal::parse(quantity)?;
        change.digits.price = change.digits.price.max(price_digits);
        change.digits.quantity = change.digits.quantity.max(quantity_digits);
        change.levels.push((side, price, quantity));
    }
    Some(())
}

/// Reads a message; nothing for one that no stream here has.
fn read(received: u64, bytes: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let text = serde_json::from_str(text).map_or(text, |wrapped: Wrapped<'_>| wrapped.data.get());
    if let Ok(snapshot) = serde_json::from_str::<SnapshotText<'_>>(text) {
        let mut change = Change { last: snapshot.last, ..Change::default() };
        rows(Side::Bid, &snapshot.bids, &mut change)?;
        rows(Side::Ask, &snapshot.asks, &mut change)?;
        return Some(Line { received, kind: Kind::Snapshot(change), text: String::new() });
    }
    let head: Head<'_> = serde_json::from_str(text).ok()?;
    let channel = match head.e.as_ref() {
        "depthUpdate" => Channel::DepthAtOnce,
        "bookTicker" => Channel::BookTicker,
        "aggTrade" => Channel::AggTrade,
        "trade" => Channel::Trade,
        "markPriceUpdate" => Channel::Mark,
        _ => return None,
    };
    let depth = if channel.is_depth() {
        let depth: DepthText<'_> = serde_json::from_str(text).ok()?;
        let mut change = Change { last: depth.last, previous: depth.pu, ..Change::default() };
        rows(Side::Bid, &depth.b, &mut change)?;
        rows(Side::Ask, &depth.a, &mut change)?;
        Some(change)
    } else {
        None
    };
    let symbol = head.s.to_ascii_uppercase();
    let kind = Kind::Event { symbol, channel, time_ms: head.time_ms, depth };
    Some(Line { received, kind, text: text.to_owned() })
}

impl Taped {
    fn best(&self) -> Option<i64> {
        self.book.best(Side::Bid).or_else(|| self.book.best(Side::Ask)).map(|best| best.0)
    }

    fn write(&mut self, change: &Change) {
        self.digits.price = self.digits.price.max(change.digits.price);
        self.digits.quantity = self.digits.quantity.max(change.digits.quantity);
        for (side, price, quantity) in &change.levels {
            self.book.set(*side, *price, *quantity);
        }
        self.book.last = change.last;
    }

    /// A depth message, as it is played.
    fn change(&mut self, change: &Change) {
        self.recent.push_back(change.clone());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        if self.has_base && change.last < self.book.last {
            return;
        }
        let follows = change.previous.is_none_or(|previous| previous <= self.book.last);
        self.is_broken |= self.has_base && !follows;
        self.write(change);
    }

    /// A snapshot, and what of the messages before it is newer than it.
    fn load(&mut self, snapshot: &Change) {
        self.book = TrueBook::default();
        self.write(snapshot);
        (self.has_base, self.is_broken) = (true, false);
        for change in std::mem::take(&mut self.recent) {
            if change.last >= self.book.last {
                self.write(&change);
            }
            self.recent.push_back(change);
        }
    }
}

impl Tape {
    /// A tape at its start. Reads ahead for the instruments: one that first appears later than
    /// 20,000 messages in is not served.
    pub fn new(lines: Lines) -> Self {
        let mut tape = Self {
            lines,
            ahead: VecDeque::new(),
            instruments: Vec::new(),
            start: None,
            time_ms: 0,
            skipped: 0,
        };
        while tape.ahead.len() < LOOK_AHEAD && tape.read_one() {}
        tape.learn();
        tape
    }

    /// Messages that were left out because no stream here has them.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn read_one(&mut self) -> bool {
        for (received, bytes) in self.lines.by_ref() {
            if let Some(line) = read(received, &bytes) {
                self.ahead.push_back(line);
                return true;
            }
            self.skipped += 1;
        }
        false
    }

    /// The instruments, and for each the first snapshot as its book: until the stream has reached
    /// it that book is newer than the stream, as it was for who recorded it.
    fn learn(&mut self) {
        let mut known: Vec<Taped> = Vec::new();
        let ahead = std::mem::take(&mut self.ahead);
        for line in &ahead {
            match &line.kind {
                Kind::Event { symbol, depth, time_ms, .. } => {
                    let index = known.iter().position(|it| it.symbol == *symbol);
                    let index = index.unwrap_or_else(|| {
                        known.push(Taped { symbol: symbol.clone(), ..Taped::default() });
                        known.len() - 1
                    });
                    if let (Some(change), Some(taped)) = (depth, known.get_mut(index)) {
                        taped.change(change);
                    }
                    self.time_ms = if self.time_ms == 0 { *time_ms } else { self.time_ms };
                }
                Kind::Snapshot(snapshot) => {
                    let nearest = nearest(&known, snapshot).and_then(|index| known.get_mut(index));
                    if let Some(taped) = nearest.filter(|taped| !taped.has_base) {
                        taped.oldest = TrueBook::default();
                        for (side, price, quantity) in &snapshot.levels {
                            taped.oldest.set(*side, *price, *quantity);
                        }
                        taped.oldest.last = snapshot.last;
                        taped.has_base = true;
                    }
                }
            }
        }
        for taped in known {
            let Taped { symbol, digits, oldest, has_base, .. } = taped;
            let book = oldest.clone();
            self.instruments.push(Taped {
                symbol,
                digits,
                oldest,
                book,
                has_base,
                ..Taped::default()
            });
        }
        self.ahead = ahead;
    }

    /// When the next message is due, ns from the first.
    pub fn due(&mut self) -> Option<u64> {
        if self.ahead.is_empty() {
            self.read_one();
        }
        let line = self.ahead.front()?;
        let start = *self.start.get_or_insert(line.received);
        Some(line.received.saturating_sub(start))
    }

    /// Plays the next message; adds it if it is wanted.
    pub fn step(&mut self, wanted: &dyn Fn(Stream) -> bool, out: &mut Vec<Event>) {
        let Some(at) = self.due() else { return };
        let Some(line) = self.ahead.pop_front() else { return };
        // As far ahead as at the start, for a book of the future.
        self.read_one();
        match line.kind {
            Kind::Event { symbol, channel, time_ms, depth } => {
                let Some(index) = self.instruments.iter().position(|it| it.symbol == symbol) else {
                    return;
                };
                self.time_ms = self.time_ms.max(time_ms);
                if let (Some(change), Some(taped)) = (&depth, self.instruments.get_mut(index)) {
                    taped.change(change);
                }
                let stream = Stream { symbol: index, channel };
                if wanted(stream) {
                    out.push(Event { at, stream, text: line.text });
                }
            }
            Kind::Snapshot(snapshot) => {
                let nearest = nearest(&self.instruments, &snapshot);
                let taped = nearest.and_then(|index| self.instruments.get_mut(index));
                if let Some(taped) = taped.filter(|taped| taped.is_broken || !taped.has_base) {
                    taped.load(&snapshot);
                }
            }
        }
    }

    /// The instruments of the tape. Ticks are what the number of digits allows.
    pub fn listings(&self) -> Vec<Listing> {
        let step = |digits: u32| ONE / 10_i64.pow(digits.min(8));
        self.instruments
            .iter()
            .map(|taped| Listing {
                symbol: taped.symbol.clone(),
                digits: taped.digits,
                tick: step(taped.digits.price),
                lot: step(taped.digits.quantity),
            })
            .collect()
    }

    /// The time of the last message by the exchange's clock, ms since 1970.
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// The book as it is known now.
    pub fn book(&self, symbol: usize) -> Option<&TrueBook> {
        self.instruments.get(symbol).map(|taped| &taped.book)
    }

    /// A book too old to be joined to any message of the tape.
    pub fn oldest_book(&self, symbol: usize) -> Option<TrueBook> {
        let mut book = self.instruments.get(symbol)?.oldest.clone();
        // Any number before the tape's first.
        book.last = book.last.saturating_sub(1_000_000_000);
        Some(book)
    }

    /// The book so many depth messages later, as far as the tape was read.
    pub fn future_book(&self, symbol: usize, messages: u64) -> Option<TrueBook> {
        let mut taped = self.instruments.get(symbol)?.clone();
        let mut left = messages;
        for line in &self.ahead {
            match &line.kind {
                Kind::Event { symbol, depth: Some(change), .. } if *symbol == taped.symbol => {
                    taped.change(change);
                    left = left.saturating_sub(1);
                }
                _ => {}
            }
            if left == 0 {
                break;
            }
        }
        Some(taped.book)
    }
}

/// Whose snapshot it is, which it does not say: the instrument with the nearest price.
fn nearest(instruments: &[Taped], snapshot: &Change) -> Option<usize> {
    if instruments.len() == 1 {
        return Some(0);
    }
    let price = snapshot.levels.first()?.1;
    let distance = |taped: &Taped| taped.best().map_or(u64::MAX, |best| best.abs_diff(price));
    (0..instruments.len()).min_by_key(|index| instruments.get(*index).map_or(u64::MAX, distance))
}
