//! What the books really were: the same market, made again and read by other code.

use std::collections::{BTreeMap, HashMap};

use quietcore_feed::book::Book;
use quietcore_feed::market::Side;
use quietcore_feed::server::{Age, Channel, Generator, Settings, Source, Stream};
use serde_json::Value;

/// Levels of each side that are compared.
pub const DEEP: usize = 20;

/// The best levels of both sides, best first: prices and quantities in 1e-8.
pub type Top = [Vec<(i64, i64)>; 2];

/// What a book shows.
pub fn top(book: &Book) -> Top {
    let side = |side| {
        let levels = book.levels(side).take(DEEP);
        levels.map(|level| (level.price.0, level.quantity.0)).collect()
    };
    [side(Side::Bid), side(Side::Ask)]
}

fn parse(text: &Value) -> i64 {
    let text = text.as_str().unwrap();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<8}").parse().unwrap()
}

#[derive(Default)]
struct Reference {
    bids: BTreeMap<i64, i64>,
    asks: BTreeMap<i64, i64>,
}

impl Reference {
    fn apply(&mut self, bids: &Value, asks: &Value) {
        for (side, rows) in [(&mut self.bids, bids), (&mut self.asks, asks)] {
            for row in rows.as_array().unwrap() {
                match parse(&row[1]) {
                    0 => side.remove(&parse(&row[0])),
                    quantity => side.insert(parse(&row[0]), quantity),
                };
            }
        }
    }

    fn top(&self) -> Top {
        let of = |level: (&i64, &i64)| (*level.0, *level.1);
        [
            self.bids.iter().rev().take(DEEP).map(of).collect(),
            self.asks.iter().take(DEEP).map(of).collect(),
        ]
    }
}

/// A market's books, by instrument and update.
pub struct Truth {
    market: Source,
    books: Vec<Reference>,
    last: Vec<u64>,
    /// The first snapshot of each instrument, as the venue would send it.
    pub snapshots: Vec<String>,
    tops: HashMap<(usize, u64), Top>,
    /// The update before, of each.
    previous: HashMap<(usize, u64), u64>,
    channel: Channel,
}

impl Truth {
    pub fn new(settings: &Settings, channel: Channel) -> Self {
        let market = Source::Generated(Box::new(Generator::new(settings.clone())));
        let count = settings.symbols.len();
        let snapshots: Vec<String> =
            (0..count).map(|n| market.snapshot(n, usize::MAX, Age::Now).unwrap()).collect();
        let mut books = Vec::new();
        let mut last = Vec::new();
        for text in &snapshots {
            let snapshot: Value = serde_json::from_str(text).unwrap();
            let mut book = Reference::default();
            book.apply(&snapshot["bids"], &snapshot["asks"]);
            last.push(snapshot["lastUpdateId"].as_u64().unwrap());
            books.push(book);
        }
        let (tops, previous) = Default::default();
        Self { market, books, last, snapshots, tops, previous, channel }
    }

    fn step(&mut self) {
        let mut events = Vec::new();
        let channel = self.channel;
        self.market.step(&|stream: Stream| stream.channel == channel, &mut events);
        for event in events {
            let change: Value = serde_json::from_str(&event.text).unwrap();
            let symbol = event.stream.symbol;
            let update = change["u"].as_u64().unwrap();
            self.books[symbol].apply(&change["b"], &change["a"]);
            self.tops.insert((symbol, update), self.books[symbol].top());
            self.previous.insert((symbol, update), self.last[symbol]);
            self.last[symbol] = update;
        }
    }

    fn reach(&mut self, symbol: usize, update: u64) {
        while self.last[symbol] < update {
            self.step();
        }
    }

    /// The book after this update.
    pub fn top(&mut self, symbol: usize, update: u64) -> Option<&Top> {
        self.reach(symbol, update);
        self.tops.get(&(symbol, update))
    }

    /// The update before this one.
    pub fn previous(&mut self, symbol: usize, update: u64) -> Option<u64> {
        self.reach(symbol, update);
        self.previous.get(&(symbol, update)).copied()
    }
}

/// The numbers of a market's quotes or trades (`key`), from one on to another, of an instrument.
pub fn numbers(
    settings: &Settings,
    channel: Channel,
    key: &str,
    symbol: usize,
    from_to: (u64, u64),
) -> Vec<u64> {
    let mut market = Source::Generated(Box::new(Generator::new(settings.clone())));
    let (mut events, mut found) = (Vec::new(), Vec::new());
    loop {
        market.step(&|stream| stream == Stream { symbol, channel }, &mut events);
        for event in events.drain(..) {
            let number = serde_json::from_str::<Value>(&event.text).unwrap()[key].as_u64().unwrap();
            if number > from_to.1 {
                return found;
            }
            if number >= from_to.0 {
                found.push(number);
            }
        }
    }
}
