//! Binance's messages as one would write them for serde: borrowing, numbers by fast-float2.

use serde::Deserialize;

/// A combined stream's wrapper.
#[derive(Debug, Deserialize)]
pub struct Wrapped<'a, T> {
    /// Which stream's.
    #[serde(rename = "stream")]
    pub _stream: &'a str,
    /// The message.
    pub data: T,
    /// When a replay venue sent it, ns since 1970.
    pub sent: Option<u64>,
}

/// A change of the book.
#[derive(Debug, Deserialize)]
pub struct Depth<'a> {
    /// The instrument.
    #[serde(rename = "s")]
    pub symbol: &'a str,
    /// When, in milliseconds.
    #[serde(rename = "T")]
    pub time: u64,
    /// The first update.
    #[serde(rename = "U")]
    pub first: u64,
    /// The last update.
    #[serde(rename = "u")]
    pub last: u64,
    /// The last update of the message before.
    #[serde(rename = "pu")]
    pub previous: u64,
    /// Price and quantity.
    #[serde(rename = "b", borrow)]
    pub bids: Vec<[&'a str; 2]>,
    /// Price and quantity.
    #[serde(rename = "a", borrow)]
    pub asks: Vec<[&'a str; 2]>,
}

/// The best prices.
#[derive(Debug, Deserialize)]
pub struct Ticker<'a> {
    /// The instrument.
    #[serde(rename = "s")]
    pub symbol: &'a str,
    /// The update.
    #[serde(rename = "u")]
    pub update: u64,
    /// When, in milliseconds.
    #[serde(rename = "T")]
    pub time: u64,
    /// Best bid.
    #[serde(rename = "b")]
    pub bid: &'a str,
    /// How much.
    #[serde(rename = "B")]
    pub bid_quantity: &'a str,
    /// Best ask.
    #[serde(rename = "a")]
    pub ask: &'a str,
    /// How much.
    #[serde(rename = "A")]
    pub ask_quantity: &'a str,
}

impl Ticker<'_> {
    /// Bid, its quantity, ask, its quantity.
    pub fn numbers(&self) -> Option<[f64; 4]> {
        Some([
            number(self.bid)?,
            number(self.bid_quantity)?,
            number(self.ask)?,
            number(self.ask_quantity)?,
        ])
    }
}

/// A trade or an aggregate of them.
#[derive(Debug, Deserialize)]
pub struct Trade<'a> {
    /// Its number.
    #[serde(rename = "a", alias = "t")]
    pub id: u64,
    /// At what price.
    #[serde(rename = "p")]
    pub price: &'a str,
    /// How much.
    #[serde(rename = "q")]
    pub quantity: &'a str,
    /// Whether the taker sold.
    #[serde(rename = "m")]
    pub is_sale: bool,
    /// When, in milliseconds.
    #[serde(rename = "T")]
    pub time: u64,
}

/// A whole book, as the REST interface answers.
#[derive(Debug, Deserialize)]
pub struct Snapshot<'a> {
    /// The update that it is of.
    #[serde(rename = "lastUpdateId")]
    pub last: u64,
    /// Price and quantity.
    #[serde(borrow)]
    pub bids: Vec<[&'a str; 2]>,
    /// Price and quantity.
    #[serde(borrow)]
    pub asks: Vec<[&'a str; 2]>,
}

/// A number written as text.
#[inline]
pub fn number(text: &str) -> Option<f64> {
    fast_float2::parse(text).ok()
}

/// In units of 1e-8, as the engine counts: what two books are compared by. Not below 0.
#[inline]
pub fn units(value: f64) -> i64 {
    (value * 1e8 + 0.5) as i64
}
