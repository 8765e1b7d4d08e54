//! What a venue says, the same for all venues.

use crate::fixed::Fixed;
use crate::scan::text::names;

/// Which side of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Who wants to buy.
    Bid,
    /// Who wants to sell.
    Ask,
}

/// One price of a book and what is offered or wanted there. Nothing: the level is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Level {
    /// The price.
    pub price: Fixed,
    /// How much, absolute.
    pub quantity: Fixed,
}

/// Levels of a message, read into memory that is used again. Kept by the caller of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// In the message's order.
    pub bids: Vec<Level>,
    /// In the message's order.
    pub asks: Vec<Level>,
}

impl Levels {
    /// Room for so many of each side without asking for more memory.
    pub fn with_room(levels: usize) -> Self {
        Self { bids: Vec::with_capacity(levels), asks: Vec::with_capacity(levels) }
    }

    /// Empty again; the memory stays.
    pub fn clear(&mut self) {
        self.bids.clear();
        self.asks.clear();
    }
}

/// What of a book a message holds. The levels are in the [`Levels`] that the scan was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// All of the book (or all that the venue shows), not a change.
    pub is_snapshot: bool,
    /// The first update that this holds. A snapshot's is the same as `last`.
    pub first: u64,
    /// The last update that this holds.
    pub last: u64,
    /// The `last` of the message before, where the venue says so.
    pub previous: Option<u64>,
    /// The venue's checksum of the book after this, where there is one.
    pub checksum: Option<i32>,
    /// When the exchange's matching engine did it, in milliseconds since 1970. 0 if not said.
    pub time_ms: u64,
}

/// The best bid and ask, as the venue says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quote {
    /// The update of the book that it belongs to.
    pub update: u64,
    /// The best bid; a quantity of nothing where there is none.
    pub bid: Level,
    /// The best ask; a quantity of nothing where there is none.
    pub ask: Level,
    /// When, in milliseconds since 1970. 0 if not said.
    pub time_ms: u64,
}

/// A trade, or several of one taker at one price (`aggTrade`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// The venue's number for it.
    pub id: u64,
    /// At what price.
    pub price: Fixed,
    /// How much.
    pub quantity: Fixed,
    /// Who took: [`Side::Ask`] where the taker sold.
    pub taker: Side,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
}

/// Mark price and funding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The mark price.
    pub price: Fixed,
    /// The index price.
    pub index: Fixed,
    /// The funding rate.
    pub funding: Fixed,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
}

/// What one message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says<'a> {
    /// A book, or a change of one.
    Depth(Depth),
    /// The best bid and ask.
    Quote(Quote),
    /// A trade.
    Trade(Trade),
    /// Mark price and funding.
    Mark(Mark),
    /// The answer to something we asked of the venue, by the number we gave it.
    Done(u64),
    /// The venue refuses something, in its own words.
    Refused(&'a [u8]),
    /// Something well-formed that nobody here needs.
    Other,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The instrument as the message writes it (upper or lower case, even escaped: compare it with
    /// [`Message::is_of`]); empty where it names none.
    pub symbol: &'a [u8],
    /// What it says of it.
    pub says: Says<'a>,
}

impl Message<'_> {
    /// Is this of the instrument of that name?
    pub fn is_of(&self, name: &[u8]) -> bool {
        names(self.symbol, name)
    }
}
