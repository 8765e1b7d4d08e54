//! What the engine knows, in shared memory: for strategies that are processes of their own.
//!
//! A [`Publisher`] is a [`Handler`]: every book, quote, trade and mark becomes a record of a ring that
//! any number of processes follow, none of which can hold the hot thread up.
//! Every record is whole in itself, a book with its best [`LEVELS`] of each side, so that one may
//! begin to follow at any time and may miss records without harm; how many it missed it is told.
//!
//! The file is `quietcore-feed.PID` in `/dev/shm`, of the layout that
//! [`broadcast`](quietcore_sys::broadcast) documents for other languages, with the magic
//! `qcFEED\x1a\0` and records of 47 words:
//!
//! | word | is |
//! | --- | --- |
//! | 0 | the kind (0 book, 1 book lost, 2 quote, 3 trade, 4 mark), and for a book 256 × its bids and 65,536 × its asks |
//! | 1 | CLOCK_MONOTONIC when it was published, in nanoseconds |
//! | 2 | the last update in the book, or the update of the quote, or the number of the trade |
//! | 3 | the venue's time, in milliseconds since 1970; 0 if not said |
//! | 4–6 | the instrument's name, as it was asked for, and zero bytes |
//! | 7… | book: price and quantity of 10 bids, then of 10 asks, the best first. Quote: price and quantity of bid and ask. Trade: price, quantity, 1 where the taker sold. Mark: price, index, funding. All in units of 10⁻⁸ |

use std::path::{Path, PathBuf};
use std::process;

use quietcore_sys::broadcast::{BroadcastError, Format, Reader, Record, Segment, Writer};
use quietcore_sys::clock::KernelClock;

use crate::engine::Handler;
use crate::fixed::Fixed;
use crate::market::{Level, Levels, Mark, Quote, Side, Trade};
use crate::sync::Market;

/// Levels of each side that a record of a book holds at most.
pub const LEVELS: usize = 10;
/// Longest name of an instrument, in bytes.
pub const LONGEST_NAME: usize = 24;

const HEAD: usize = 7;
const WORDS: usize = HEAD + 4 * LEVELS;
const FORMAT: Format = Format { magic: *b"qcFEED\x1a\0", words: WORDS as u32 };
/// A second of the busiest market that was recorded. 6 MiB.
const SLOTS: u32 = 1 << 14;

const BOOK: u64 = 0;
const LOST: u64 = 1;
const QUOTE: u64 = 2;
const TRADE: u64 = 3;
const MARK: u64 = 4;

/// Where the engine of a process publishes.
pub fn path_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/quietcore-feed.{pid}"))
}

/// Whether a process publishes, and has not been killed at it.
pub fn is_published(pid: u32) -> bool {
    path_of(pid).exists() && Path::new(&format!("/proc/{pid}")).exists()
}

/// Publishes what it is told.
#[derive(Debug)]
pub struct Publisher {
    segment: Segment,
    /// The hot thread's, made when that tells something for the first time.
    writer: Option<Writer>,
    names: Vec<[u64; 3]>,
}

impl Publisher {
    /// Publishes for these instruments where [`path_of`] this process says. A name that is too long
    /// is cut.
    ///
    /// # Errors
    /// [`BroadcastError::File`] where the memory cannot be made.
    pub fn new(symbols: &[String]) -> Result<Self, BroadcastError> {
        let segment = Segment::create(path_of(process::id()), &FORMAT, 1, SLOTS)?;
        let names = symbols.iter().map(|symbol| packed(symbol)).collect();
        Ok(Self { segment, writer: None, names })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.segment.path()
    }

    #[inline]
    fn put<const N: usize>(
        &mut self,
        symbol: usize,
        kind: u64,
        number: u64,
        ms: u64,
        rest: [u64; N],
    ) {
        let mut words = [0; WORDS];
        words[..4].copy_from_slice(&[kind, KernelClock::Monotonic.now(), number, ms]);
        words[4..HEAD].copy_from_slice(&self.names[symbol]);
        words[HEAD..HEAD + N].copy_from_slice(&rest);
        if self.writer.is_none() {
            self.writer = self.segment.writer();
        }
        if let Some(writer) = &mut self.writer {
            writer.write(&words[..HEAD + N]);
        }
    }
}

impl Handler for Publisher {
    fn book(&mut self, symbol: usize, market: &Market) {
        if let Some(book) = market.book() {
            let mut levels = [0; 4 * LEVELS];
            let mut counts = [0; 2];
            for (number, side) in [Side::Bid, Side::Ask].into_iter().enumerate() {
                let places = levels[number * 2 * LEVELS..].chunks_exact_mut(2);
                for (place, level) in places.zip(book.levels(side).take(LEVELS)) {
                    place.copy_from_slice(&words(level));
                    counts[number] += 1;
                }
            }
            let kind = BOOK | (counts[0] << 8) | (counts[1] << 16);
            self.put(symbol, kind, market.last(), 0, levels);
        }
    }

    fn lost(&mut self, symbol: usize) {
        self.put(symbol, LOST, 0, 0, []);
    }

    fn quote(&mut self, symbol: usize, quote: &Quote) {
        let [bid, ask] = [quote.bid, quote.ask].map(words);
        self.put(symbol, QUOTE, quote.update, quote.time_ms, [bid[0], bid[1], ask[0], ask[1]]);
    }

    fn trade(&mut self, symbol: usize, trade: &Trade) {
        let [price, quantity] = [trade.price, trade.quantity].map(|of| of.0 as u64);
        let sold = u64::from(trade.taker == Side::Ask);
        self.put(symbol, TRADE, trade.id, trade.time_ms, [price, quantity, sold]);
    }

    fn mark(&mut self, symbol: usize, mark: &Mark) {
        let numbers = [mark.price, mark.index, mark.funding].map(|of| of.0 as u64);
        self.put(symbol, MARK, 0, mark.time_ms, numbers);
    }
}

fn words(level: Level) -> [u64; 2] {
    [level.price.0 as u64, level.quantity.0 as u64]
}

fn packed(symbol: &str) -> [u64; 3] {
    let mut bytes = [0; LONGEST_NAME];
    let length = symbol.len().min(LONGEST_NAME);
    bytes[..length].copy_from_slice(&symbol.as_bytes()[..length]);
    let word =
        |at: usize| bytes[at * 8..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    [0, 1, 2].map(word)
}

/// One thing that an engine has published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// CLOCK_MONOTONIC when, in nanoseconds: compare it with [`KernelClock::Monotonic`].
    pub published_ns: u64,
    /// The instrument, as the engine was asked for it.
    pub symbol: &'a str,
    /// What.
    pub what: What<'a>,
}

/// What was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A book that is proven.
    Book {
        /// The last update in it.
        last: u64,
        /// Its best levels, the best first.
        levels: &'a Levels,
    },
    /// The book is not proven any more: what it last was is of no use.
    Lost,
    /// The best bid and ask, as the venue says.
    Quote(Quote),
    /// A trade, once.
    Trade(Trade),
    /// Mark price and funding.
    Mark(Mark),
}

/// Follows what the engine of another process publishes.
#[derive(Debug)]
pub struct Follower {
    records: Reader,
    levels: Levels,
    refused: u64,
}

impl Follower {
    /// From now on.
    ///
    /// # Errors
    /// [`BroadcastError`] where nothing is published, or something else.
    pub fn open(pid: u32) -> Result<Self, BroadcastError> {
        Self::open_at(&path_of(pid))
    }

    /// The same, from a file.
    ///
    /// # Errors
    /// As [`Follower::open`].
    pub fn open_at(path: &Path) -> Result<Self, BroadcastError> {
        let records = Reader::open(path, &FORMAT)?;
        Ok(Self { records, levels: Levels::with_room(LEVELS), refused: 0 })
    }

    /// What was overwritten before it was read, and what cannot be.
    pub fn missed(&self) -> u64 {
        self.records.missed().saturating_add(self.refused)
    }

    /// Hands over what was published since the last call, in its order. One system call where there
    /// is nothing, so it may be called in a loop; without allocation.
    ///
    /// # Errors
    /// [`BroadcastError::File`] where it cannot be read any more.
    pub fn read(&mut self, mut each: impl FnMut(&Event<'_>)) -> Result<(), BroadcastError> {
        let (levels, refused) = (&mut self.levels, &mut self.refused);
        self.records.read(|record| match hand_over(record, levels, &mut each) {
            Some(()) => {}
            None => *refused += 1,
        })
    }
}

/// The events of a segment that is not being written, and how many records are none.
///
/// # Errors
/// Why it is no segment.
pub fn parse(bytes: &[u8], mut each: impl FnMut(&Event<'_>)) -> Result<u64, String> {
    let (mut levels, mut refused) = (Levels::with_room(LEVELS), 0);
    quietcore_sys::broadcast::parse(bytes, &FORMAT, |record| {
        refused += u64::from(hand_over(record, &mut levels, &mut each).is_none());
    })?;
    Ok(refused)
}

/// `None` for what is no event: nothing that another process writes is taken on trust.
fn hand_over(
    record: Record<'_>,
    levels: &mut Levels,
    each: &mut impl FnMut(&Event<'_>),
) -> Option<()> {
    let [kind, published_ns, number, time_ms] = [0, 1, 2, 3].map(|at| record.word(at));
    let mut name = [0; LONGEST_NAME];
    for (at, bytes) in name.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&record.word(4 + at).to_ne_bytes());
    }
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(LONGEST_NAME);
    let symbol = std::str::from_utf8(&name[..length]).ok()?;
    let fixed = |at: usize| Fixed(record.word(HEAD + at) as i64);
    let level = |at: usize| Level { price: fixed(at), quantity: fixed(at + 1) };
    let what = match kind & 0xff {
        BOOK => {
            let [bids, asks] = [(kind >> 8) & 0xff, kind >> 16].map(|n| usize::try_from(n).ok());
            let [bids, asks] = [bids?, asks?];
            if bids > LEVELS || asks > LEVELS {
                return None;
            }
            levels.clear();
            levels.bids.extend((0..bids).map(|n| level(2 * n)));
            levels.asks.extend((0..asks).map(|n| level(2 * (LEVELS + n))));
            What::Book { last: number, levels }
        }
        LOST => What::Lost,
        QUOTE => What::Quote(Quote { update: number, bid: level(0), ask: level(2), time_ms }),
        TRADE => {
            let Level { price, quantity } = level(0);
            let taker = if record.word(HEAD + 2) == 0 { Side::Bid } else { Side::Ask };
            What::Trade(Trade { id: number, price, quantity, taker, time_ms })
        }
        MARK => What::Mark(Mark { price: fixed(0), index: fixed(1), funding: fixed(2), time_ms }),
        _ => return None,
    };
    each(&Event { published_ns, symbol, what });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::Depth;
    use crate::sync::MarketConfig;
    use crate::venues::Rule;

    fn level(price: i64, quantity: i64) -> Level {
        Level { price: Fixed(price), quantity: Fixed(quantity) }
    }

    #[test]
    fn what_an_engine_tells_is_what_a_follower_reads() {
        let names = ["BTCUSDT".to_owned(), "A-NAME-OF-TWENTY-FOUR-BYTES".to_owned()];
        let mut publisher = Publisher::new(&names).unwrap();
        let mut follower = Follower::open(process::id()).unwrap();
        let mut market = Market::new(Rule::InStream, MarketConfig::default());
        let bids: Vec<_> = (0..15).map(|n| level(1_000 - n * 10, 5 + n)).collect();
        let whole = Levels { bids, asks: vec![level(1_010, 7)] };
        let depth = Depth { is_snapshot: true, first: 9, last: 9, ..Depth::default() };
        let _ = market.on_depth(&depth, &whole);
        publisher.book(0, &market);
        let quote = Quote { update: 3, bid: level(1, 2), ask: level(3, 4), time_ms: 5 };
        publisher.quote(1, &quote);
        let (price, quantity) = (Fixed(6), Fixed(7));
        let trade = Trade { id: 8, price, quantity, taker: Side::Ask, time_ms: 9 };
        publisher.trade(0, &trade);
        let mark = Mark { price, index: quantity, funding: Fixed(-8), time_ms: 1 };
        publisher.mark(0, &mark);
        publisher.lost(0);

        let mut told = Vec::new();
        let best = Levels { bids: whole.bids[..LEVELS].to_vec(), asks: whole.asks.clone() };
        let before = KernelClock::Monotonic.now();
        let expected = [
            ("BTCUSDT", What::Book { last: 9, levels: &best }),
            ("A-NAME-OF-TWENTY-FOUR-BY", What::Quote(quote)),
            ("BTCUSDT", What::Trade(trade)),
            ("BTCUSDT", What::Mark(mark)),
            ("BTCUSDT", What::Lost),
        ];
        let read = follower.read(|event| {
            assert!(event.published_ns > 0 && event.published_ns <= before);
            let (symbol, what) = expected[told.len()];
            assert_eq!((event.symbol, event.what), (symbol, what));
            told.push(event.published_ns);
        });
        read.unwrap();
        assert_eq!((told.len(), follower.missed()), (5, 0));
        let mut count = 0;
        let refused = parse(&std::fs::read(publisher.path()).unwrap(), |_| count += 1);
        assert_eq!((refused, count), (Ok(0), 5));
    }

    #[test]
    fn what_is_no_event_is_counted_and_left_out() {
        let path = PathBuf::from(format!("/dev/shm/quietcore-feed-test.{}", process::id()));
        let segment = Segment::create(path.clone(), &FORMAT, 1, 8).unwrap();
        let mut writer = segment.writer().unwrap();
        let mut follower = Follower::open_at(&path).unwrap();
        writer.write(&[5]);
        writer.write(&[BOOK | (11 << 8)]);
        writer.write(&[BOOK | (1 << 24)]);
        writer.write(&[LOST, 0, 0, 0, u64::MAX]);
        writer.write(&[LOST, 1, 0, 0, 0, 0, 0]);
        let mut seen = 0;
        follower.read(|event| seen += u64::from(event.what == What::Lost)).unwrap();
        assert_eq!((seen, follower.missed()), (1, 4));
    }
}
