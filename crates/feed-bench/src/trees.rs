//! A book of two `BTreeMap`s, and a market around it as one would write it with serde.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use quietcore_feed::book::Book;
use quietcore_feed::market::{Level, Levels, Side};

use crate::messages::{Depth, Snapshot, Ticker, Trade, Wrapped, number, units};

/// Quantities by price, both in units of 1e-8.
#[derive(Debug, Default)]
pub struct Trees {
    bids: BTreeMap<i64, i64>,
    asks: BTreeMap<i64, i64>,
}

#[inline]
fn set(tree: &mut BTreeMap<i64, i64>, price: i64, quantity: i64) {
    if quantity == 0 {
        tree.remove(&price);
    } else {
        tree.insert(price, quantity);
    }
}

impl Trees {
    /// Takes over a message's levels.
    pub fn change(&mut self, levels: &Levels) {
        let set_all = |tree: &mut BTreeMap<i64, i64>, levels: &[Level]| {
            levels.iter().for_each(|level| set(tree, level.price.0, level.quantity.0));
        };
        set_all(&mut self.bids, &levels.bids);
        set_all(&mut self.asks, &levels.asks);
    }

    /// Only these levels.
    pub fn load(&mut self, levels: &Levels) {
        self.bids.clear();
        self.asks.clear();
        self.change(levels);
    }

    fn change_texts(&mut self, bids: &[[&str; 2]], asks: &[[&str; 2]]) -> Option<()> {
        for (tree, rows) in [(&mut self.bids, bids), (&mut self.asks, asks)] {
            for [price, quantity] in rows {
                set(tree, units(number(price)?), units(number(quantity)?));
            }
        }
        Some(())
    }

    /// The best bid and ask.
    pub fn best(&self) -> [Option<i64>; 2] {
        [self.bids.last_key_value(), self.asks.first_key_value()]
            .map(|level| level.map(|(price, _)| *price))
    }

    /// Whether it is the same book, level by level.
    pub fn is(&self, book: &Book) -> bool {
        let of = |side| book.levels(side).map(|level| (level.price.0, level.quantity.0));
        let own = |(price, quantity): (&i64, &i64)| (*price, *quantity);
        of(Side::Bid).eq(self.bids.iter().rev().map(own))
            && of(Side::Ask).eq(self.asks.iter().map(own))
    }
}

/// What a message was to a [`Plain`] market.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Took {
    /// A change of the book, by its last update.
    Depth(u64),
    /// The best prices, by their update.
    Quote(u64),
    /// Something else.
    Other,
}

/// One instrument, by serde_json and `BTreeMap`.
#[derive(Debug, Default)]
pub struct Plain {
    /// Its book.
    pub trees: Trees,
    /// Quotes so far.
    pub quotes: u64,
    /// Trades so far.
    pub trades: u64,
    last: u64,
    has_joined: bool,
    quote: [f64; 4],
    trade: (u64, f64, f64, bool, u64),
}

impl Plain {
    /// Begins anew with this answer to a request for the whole book.
    pub fn load(&mut self, snapshot: &[u8]) -> anyhow::Result<()> {
        let snapshot: Snapshot<'_> = serde_json::from_slice(snapshot)?;
        self.trees.load(&Levels::default());
        self.trees
            .change_texts(&snapshot.bids, &snapshot.asks)
            .context("a snapshot with something else than numbers")?;
        self.last = snapshot.last;
        self.has_joined = false;
        Ok(())
    }

    /// Whether a change has followed the snapshot.
    pub fn has_joined(&self) -> bool {
        self.has_joined
    }

    /// One message; the name of its stream says what it is. And when it was sent, if it says so.
    #[inline]
    pub fn take(&mut self, text: &str) -> anyhow::Result<(Took, Option<u64>)> {
        let stream = text.split('"').nth(3).and_then(|name| name.split_once('@'));
        match stream.map(|(_, suffix)| suffix) {
            Some("bookTicker") => {
                let message: Wrapped<'_, Ticker<'_>> = serde_json::from_str(text)?;
                self.quote = message.data.numbers().context("a quote without numbers")?;
                self.quotes += 1;
                Ok((Took::Quote(message.data.update), message.sent))
            }
            Some("aggTrade" | "trade") => {
                let message: Wrapped<'_, Trade<'_>> = serde_json::from_str(text)?;
                let Trade { id, price, quantity, is_sale, time } = message.data;
                let numbers = number(price).zip(number(quantity));
                let (price, quantity) = numbers.context("a trade without numbers")?;
                self.trade = (id, price, quantity, is_sale, time);
                self.trades += 1;
                Ok((Took::Other, message.sent))
            }
            Some(suffix) if suffix.starts_with("depth") => {
                let message: Wrapped<'_, Depth<'_>> = serde_json::from_str(text)?;
                self.depth(&message.data)?;
                Ok((Took::Depth(message.data.last), message.sent))
            }
            _ => Ok((Took::Other, None)),
        }
    }

    fn depth(&mut self, depth: &Depth<'_>) -> anyhow::Result<()> {
        if !self.has_joined {
            if depth.last < self.last {
                return Ok(());
            }
            self.has_joined = true;
        } else if depth.previous != self.last {
            bail!("a change is missing between {} and {}", self.last, depth.first);
        }
        self.last = depth.last;
        self.trees
            .change_texts(&depth.bids, &depth.asks)
            .context("a change with something else than numbers")
    }
}
