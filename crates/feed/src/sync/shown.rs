//! The book and what is proven of it with every change.

use crate::book::Book;
use crate::fixed::Fixed;
use crate::market::{Depth, Level, Levels, Side};
use crate::venues::Rule;

use super::checksum::Checksum;
use super::quotes::{CrossCheck, Top};
use super::{Counters, MarketConfig};

/// Changes of which it is remembered that they were applied.
const REMEMBERED: usize = 32;

/// How a change stands to the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// It comes next.
    Next,
    /// The book holds it already.
    Held,
    /// Something between is missing.
    Gap,
}

/// Why a book may not be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Crossed,
    Checksum,
}

/// A book with the position in the stream that it is of.
#[derive(Debug)]
pub(super) struct Shown {
    rule: Rule,
    pub book: Book,
    /// The last update in the book.
    pub last: u64,
    pub hash: u64,
    pub counters: Counters,
    pub quotes: CrossCheck,
    checksum: Checksum,
    snapshot_levels: usize,
    /// The worst price up to which a side is whole, where it is not wholly.
    pub trusted: [Option<Fixed>; 2],
    /// The last changes' updates, in a ring.
    remembered: [u64; REMEMBERED],
    changes: usize,
}

impl Shown {
    pub fn new(rule: Rule, config: &MarketConfig) -> Self {
        Self {
            rule,
            book: Book::new(config.book),
            last: 0,
            hash: 0,
            counters: Counters::default(),
            quotes: CrossCheck::new(),
            checksum: Checksum::new(),
            snapshot_levels: config.snapshot_levels,
            trusted: [None; 2],
            remembered: [0; REMEMBERED],
            changes: 0,
        }
    }

    pub fn follows(&self, depth: &Depth) -> Follows {
        let is_next = follows_directly(depth, self.last);
        match self.rule {
            Rule::Bridge if depth.last <= self.last => Follows::Held,
            _ if is_next => Follows::Next,
            // From another connection, which cuts the same changes differently. All since `last` are
            // in it, and quantities are absolute.
            Rule::Bridge if depth.previous.is_some_and(|update| update < self.last) => {
                Follows::Next
            }
            Rule::Bridge => Follows::Gap,
            Rule::InStream if self.was_passed(depth) => Follows::Held,
            Rule::InStream => Follows::Gap,
        }
    }

    /// Whether this is an old change of a stream whose numbers may start again at maintenance. A
    /// smaller number alone does not make it one: it may follow a restart that was missed. It is
    /// one that was applied, or, overtaken by a snapshot, one that follows such a one.
    fn was_passed(&self, depth: &Depth) -> bool {
        let follows_passed = || depth.previous.is_some_and(|update| self.is_remembered(update));
        self.is_remembered(depth.last) || depth.last < self.last && follows_passed()
    }

    /// Whether the book was at this update, not long ago.
    pub fn is_remembered(&self, update: u64) -> bool {
        self.remembered.contains(&update)
    }

    /// Takes over a whole book.
    pub fn load(&mut self, depth: &Depth, levels: &Levels) -> Result<(), Wrong> {
        if depth.last < self.last {
            self.quotes.forget_quotes();
            self.remembered.fill(depth.last);
        }
        self.book.load(levels);
        let cut = |side: &[Level], worst: fn(Fixed, Fixed) -> Fixed| {
            let is_cut = self.snapshot_levels > 0 && side.len() >= self.snapshot_levels;
            side.iter().map(|level| level.price).reduce(worst).filter(|_| is_cut)
        };
        self.trusted = [cut(&levels.bids, Fixed::min), cut(&levels.asks, Fixed::max)];
        self.moved(depth, &levels.bids, &levels.asks);
        self.proven(depth).map(drop)
    }

    /// Takes over the change that comes next.
    #[inline]
    pub fn apply(&mut self, depth: &Depth, bids: &[Level], asks: &[Level]) -> Result<(), Wrong> {
        if depth.last < self.last {
            // The venue has started to count again.
            self.quotes.forget_quotes();
            self.remembered.fill(depth.last);
        }
        self.book.apply_all(Side::Bid, bids);
        self.book.apply_all(Side::Ask, asks);
        self.moved(depth, bids, asks);
        let [bid, ask] = self.proven(depth)?;
        self.counters.bridged += 1;
        self.quotes.on_top(Top { last: depth.last, bid, ask }, &mut self.counters);
        Ok(())
    }

    fn moved(&mut self, depth: &Depth, bids: &[Level], asks: &[Level]) {
        self.last = depth.last;
        self.remembered[self.changes % REMEMBERED] = depth.last;
        self.changes = self.changes.wrapping_add(1);
        for part in [depth.first, depth.last, digest(bids), digest(asks)] {
            self.hash = (self.hash.rotate_left(5) ^ part).wrapping_mul(ODD);
        }
    }

    /// The best bid and ask, if nothing speaks against them.
    fn proven(&mut self, depth: &Depth) -> Result<[Option<Level>; 2], Wrong> {
        let best = [Side::Bid, Side::Ask].map(|side| self.book.best(side));
        if matches!(best, [Some(bid), Some(ask)] if bid.price >= ask.price) {
            self.counters.crossed += 1;
            return Err(Wrong::Crossed);
        }
        // OKX sends 0 for "none" since it has stopped to make them (23 June 2026).
        let Some(expected) = depth.checksum.filter(|checksum| *checksum != 0) else {
            return Ok(best);
        };
        self.counters.checksum_checked += 1;
        if !self.checksum.agrees(&self.book, expected) {
            self.counters.checksum_mismatch += 1;
            return Err(Wrong::Checksum);
        }
        Ok(best)
    }
}

/// Whether nothing is missing between an update and this change. Where the venue does not name the
/// change before, its updates are counted one by one.
pub(super) fn follows_directly(depth: &Depth, last: u64) -> bool {
    match depth.previous {
        Some(previous) => previous == last,
        None => last.checked_add(1) == Some(depth.first),
    }
}

/// 2^64 divided by the golden ratio, odd.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Of levels in their order. A sum, so that no level waits for the one before it.
fn digest(levels: &[Level]) -> u64 {
    let one = |(at, level): (usize, &Level)| {
        let price = (level.price.0 as u64 ^ at as u64).wrapping_mul(ODD);
        (price.rotate_left(29) ^ level.quantity.0 as u64).wrapping_mul(ODD)
    };
    levels.iter().enumerate().map(one).fold(levels.len() as u64, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_tells_order_price_and_quantity() {
        let of = |rows: &[(i64, i64)]| {
            let level = |(p, q): &(i64, i64)| Level { price: Fixed(*p), quantity: Fixed(*q) };
            digest(&rows.iter().map(level).collect::<Vec<_>>())
        };
        let all = [
            of(&[]),
            of(&[(0, 0)]),
            of(&[(1, 2), (3, 4)]),
            of(&[(3, 4), (1, 2)]),
            of(&[(1, 2), (3, 5)]),
            of(&[(1, 2), (2, 4)]),
            of(&[(2, 1), (3, 4)]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
