//! An order book of price levels.
//!
//! Nearly every change of a book is near its best prices, and prices come in ticks. So each side is
//! an array of quantities, one for each of 64 Ki ticks around the best price, with a bit for each
//! that is not empty: a change is a store, the best price a look at three words. What lies further
//! away or between two ticks is kept in a list beside them, so that the book is right for any price
//! there is.

mod ladder;
mod spill;

use std::fmt;

use crate::fixed::Fixed;
use crate::market::{Level, Levels, Side};
use ladder::{Key, Ladder};

/// Levels of each side that a tick is learned from.
const LEARNED_FROM: usize = 64;

/// What is known of an instrument beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BookConfig {
    /// The least step between two prices. Learned from the prices where it is not given; a wrong
    /// one makes the book slow, not wrong.
    pub tick: Option<Fixed>,
}

/// Both sides' levels. Quantities are absolute; one of nothing (or less) takes a level away, also
/// one that is not there. The last word on a price holds. Prices may be anything.
pub struct Book {
    config: BookConfig,
    bids: Ladder,
    asks: Ladder,
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book")
            .field("tick", &self.tick())
            .field("best", &[self.best(Side::Bid), self.best(Side::Ask)])
            .field("levels", &[self.len(Side::Bid), self.len(Side::Ask)])
            .finish_non_exhaustive()
    }
}

fn key(side: Side, price: Fixed) -> Key {
    match side {
        Side::Bid => price.0,
        Side::Ask => !price.0,
    }
}

fn level(side: Side, (key, quantity): (Key, i64)) -> Level {
    let price = match side {
        Side::Bid => key,
        Side::Ask => !key,
    };
    Level { price: Fixed(price), quantity: Fixed(quantity) }
}

/// What a key on the grid leaves when divided by the tick: a multiple's complement is one less.
const fn residue(side: Side) -> i64 {
    match side {
        Side::Bid => 0,
        Side::Ask => -1,
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl Book {
    /// An empty book. Takes 1 MiB.
    pub fn new(config: BookConfig) -> Self {
        let tick = config.tick.unwrap_or(Fixed(1));
        Self { config, bids: Ladder::new(tick), asks: Ladder::new(tick) }
    }

    fn side(&self, side: Side) -> &Ladder {
        match side {
            Side::Bid => &self.bids,
            Side::Ask => &self.asks,
        }
    }

    #[inline]
    fn side_mut(&mut self, side: Side) -> &mut Ladder {
        match side {
            Side::Bid => &mut self.bids,
            Side::Ask => &mut self.asks,
        }
    }

    /// One level is now this. Allocates only where the price is outside of the window.
    #[inline]
    pub fn apply(&mut self, side: Side, level: Level) {
        self.side_mut(side).set(key(side, level.price), level.quantity.0);
    }

    /// Several levels of a side, in their order.
    #[inline]
    pub fn apply_all<'a>(&mut self, side: Side, levels: impl IntoIterator<Item = &'a Level>) {
        let ladder = self.side_mut(side);
        for level in levels {
            ladder.set(key(side, level.price), level.quantity.0);
        }
    }

    /// The book is now this and nothing else. Not for the hot path: may allocate, and learns the
    /// tick where none was given.
    pub fn load(&mut self, levels: &Levels) {
        self.clear();
        self.apply_all(Side::Bid, &levels.bids);
        self.apply_all(Side::Ask, &levels.asks);
        self.place(self.learned_tick());
    }

    /// No level on either side.
    pub fn clear(&mut self) {
        self.bids.clear();
        self.asks.clear();
    }

    /// The highest bid or the lowest ask.
    #[inline]
    pub fn best(&self, side: Side) -> Option<Level> {
        self.side(side).best().map(|found| level(side, found))
    }

    /// Best first: take as many as are needed.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = Level> + '_ {
        self.side(side).iter().map(move |found| level(side, found))
    }

    /// How many levels a side has. Counts them: not for the hot path.
    pub fn len(&self, side: Side) -> usize {
        self.side(side).len()
    }

    /// Whether a side has no level.
    pub fn is_empty(&self, side: Side) -> bool {
        self.side(side).best().is_none()
    }

    /// The step of the grid in use.
    pub fn tick(&self) -> Fixed {
        self.bids.tick()
    }

    /// Whether [`Book::recentre`] would make it faster. Cheap enough to ask after every message.
    #[inline]
    pub fn is_off_centre(&self) -> bool {
        self.bids.is_off_centre() || self.asks.is_off_centre()
    }

    /// Moves the windows to where the best prices are now, and learns the tick anew where the one
    /// in use does not fit. The levels stay the same. For idle moments: takes tens of microseconds
    /// and may allocate.
    pub fn recentre(&mut self) {
        let fits = !(self.bids.is_off_grid() || self.asks.is_off_grid());
        self.place(if fits { self.tick() } else { self.learned_tick() });
    }

    fn place(&mut self, tick: Fixed) {
        for side in [Side::Bid, Side::Ask] {
            self.side_mut(side).place(tick, residue(side));
        }
    }

    /// The largest step that the best prices are multiples of. Those far away do not count: one odd
    /// price there would make the window too small for all others.
    fn learned_tick(&self) -> Fixed {
        let learned = || {
            let prices = [Side::Bid, Side::Ask]
                .into_iter()
                .flat_map(|side| self.levels(side).take(LEARNED_FROM))
                .map(|level| level.price.0.unsigned_abs())
                .fold(0, greatest_common_divisor);
            Fixed(i64::try_from(prices).ok().filter(|tick| *tick > 0).unwrap_or(1))
        };
        self.config.tick.unwrap_or_else(learned)
    }
}

#[cfg(test)]
mod tests;
