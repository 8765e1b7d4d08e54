//! Where a market comes from: made up, or recorded.

use super::book::{Digits, TrueBook};
use super::generator::Generator;
use super::stream::{Channel, Stream};
use super::tape::Tape;

/// One message of the market, the same for everyone who listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, ns of the market's time.
    pub at: u64,
    /// Which stream's.
    pub stream: Stream,
    /// The JSON, without a wrapper.
    pub text: String,
}

/// What is told of an instrument by `exchangeInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The symbol, upper case.
    pub symbol: String,
    /// Digits of its texts.
    pub digits: Digits,
    /// The smallest step of a price, 1e-8.
    pub tick: i64,
    /// The smallest quantity, 1e-8.
    pub lot: i64,
}

/// How old or new the book of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// As it is.
    Now,
    /// From before the first event.
    Past,
    /// As it will be so many depth messages later.
    Future(u64),
}

/// A market.
#[derive(Debug)]
pub enum Source {
    /// Made up from a seed.
    Generated(Box<Generator>),
    /// Played back.
    Recorded(Box<Tape>),
}

/// A future further away than so many steps is not looked for.
const FARTHEST: usize = 1_000_000;

impl Source {
    /// When the next step is due, ns of the market's time; nothing after the end.
    pub fn due(&mut self) -> Option<u64> {
        match self {
            Self::Generated(market) => Some(market.due()),
            Self::Recorded(tape) => tape.due(),
        }
    }

    /// Does the next step; adds its events that are wanted.
    pub fn step(&mut self, wanted: &dyn Fn(Stream) -> bool, out: &mut Vec<Event>) {
        match self {
            Self::Generated(market) => market.step(wanted, out),
            Self::Recorded(tape) => tape.step(wanted, out),
        }
    }

    /// The instruments; a [`Stream`] names them by their place here.
    pub fn listings(&self) -> Vec<Listing> {
        match self {
            Self::Generated(market) => market
                .contracts()
                .map(|contract| Listing {
                    symbol: contract.symbol.clone(),
                    digits: contract.digits,
                    tick: contract.tick,
                    lot: contract.lot,
                })
                .collect(),
            Self::Recorded(tape) => tape.listings(),
        }
    }

    /// The stream that a stream's name means: on a tape, depth is as it was recorded, however often
    /// it is asked for.
    pub fn stream(&self, name: &str) -> Option<Stream> {
        let (symbol, suffix) = name.split_once('@')?;
        let symbol = self.symbol(symbol)?;
        let channel = Channel::parse(suffix)?;
        let channel = match self {
            Self::Recorded(_) if channel == Channel::Books => return None,
            Self::Recorded(_) if channel.is_depth() => Channel::DepthAtOnce,
            _ => channel,
        };
        Some(Stream { symbol, channel })
    }

    /// An instrument's place, by its symbol in any case.
    pub fn symbol(&self, symbol: &str) -> Option<usize> {
        let is_it = |other: &str| other.eq_ignore_ascii_case(symbol);
        match self {
            Self::Generated(market) => market.contracts().position(|it| is_it(&it.symbol)),
            Self::Recorded(tape) => tape.listings().iter().position(|it| is_it(&it.symbol)),
        }
    }

    /// The market's time, ms since 1970.
    pub fn time_ms(&self) -> u64 {
        match self {
            Self::Generated(market) => market.time_ms(),
            Self::Recorded(tape) => tape.time_ms(),
        }
    }

    /// OKX's snapshot of an instrument, and the moment (ns of the market's time) up to which events
    /// are in it. A recording has none.
    pub fn books(&self, symbol: usize) -> Option<(u64, String)> {
        match self {
            Self::Generated(market) => market.books(symbol),
            Self::Recorded(_) => None,
        }
    }

    /// The book of an instrument as `GET /fapi/v1/depth` answers, `limit` levels a side.
    pub fn snapshot(&self, symbol: usize, limit: usize, age: Age) -> Option<String> {
        let digits = self.listings().get(symbol)?.digits;
        let time = self.time_ms();
        let text = |book: &TrueBook| book.snapshot(limit, digits, time);
        match (self, age) {
            (Self::Generated(market), Age::Now) => market.book(symbol).map(text),
            (Self::Generated(market), Age::Past) => market.oldest_book(symbol).map(text),
            (Self::Generated(market), Age::Future(messages)) => {
                let mut later = market.clone();
                let (mut out, mut steps) = (Vec::new(), 0);
                let depth = Stream { symbol, channel: Channel::DepthAtOnce };
                while (out.len() as u64) < messages && steps < FARTHEST {
                    later.step(&|stream| stream == depth, &mut out);
                    steps += 1;
                }
                later.book(symbol).map(text)
            }
            (Self::Recorded(tape), Age::Now) => tape.book(symbol).map(text),
            (Self::Recorded(tape), Age::Past) => tape.oldest_book(symbol).as_ref().map(text),
            (Self::Recorded(tape), Age::Future(messages)) => {
                tape.future_book(symbol, messages).as_ref().map(text)
            }
        }
    }
}
