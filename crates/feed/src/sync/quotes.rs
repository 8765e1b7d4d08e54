//! The book's best prices against those that the venue says.

use std::collections::VecDeque;

use crate::market::{Level, Quote};

use super::Counters;

const QUOTES: usize = 512;
const TOPS: usize = 64;

/// The best prices of a book after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Top {
    /// The change's last update.
    pub last: u64,
    pub bid: Option<Level>,
    pub ask: Option<Level>,
}

/// Compares each top of the book with the last quote that is not newer than it. Which one that is,
/// is known when a newer one has come: quotes may be ahead of the changes or behind them.
#[derive(Debug)]
pub(super) struct CrossCheck {
    quotes: VecDeque<Quote>,
    tops: VecDeque<Top>,
}

impl CrossCheck {
    pub fn new() -> Self {
        Self { quotes: VecDeque::with_capacity(QUOTES), tops: VecDeque::with_capacity(TOPS) }
    }

    pub fn on_quote(&mut self, quote: &Quote, counters: &mut Counters) {
        let newest = self.newest();
        if quote.update == 0 || newest.is_some_and(|newest| newest >= quote.update) {
            return;
        }
        if self.quotes.len() == QUOTES {
            self.quotes.pop_front();
        }
        self.quotes.push_back(*quote);
        while let Some(top) = self.tops.front().copied().filter(|top| top.last <= quote.update) {
            self.tops.pop_front();
            self.settle(&top, counters);
        }
    }

    pub fn on_top(&mut self, top: Top, counters: &mut Counters) {
        if self.newest().is_some_and(|newest| newest >= top.last) {
            return self.settle(&top, counters);
        }
        if self.tops.len() == TOPS {
            self.tops.pop_front();
        }
        self.tops.push_back(top);
    }

    /// No more quotes will come: the last ones are the last ones.
    pub fn finish(&mut self, counters: &mut Counters) {
        while let Some(top) = self.tops.pop_front() {
            self.settle(&top, counters);
        }
    }

    pub fn forget_tops(&mut self) {
        self.tops.clear();
    }

    pub fn forget_quotes(&mut self) {
        self.quotes.clear();
        self.tops.clear();
    }

    /// The last quote there was.
    pub fn last(&self) -> Option<&Quote> {
        self.quotes.back()
    }

    fn newest(&self) -> Option<u64> {
        self.quotes.back().map(|quote| quote.update)
    }

    fn settle(&mut self, top: &Top, counters: &mut Counters) {
        let newer = self.quotes.partition_point(|quote| quote.update <= top.last);
        let Some(at) = newer.checked_sub(1) else { return };
        // What is older than this one belongs to no top to come.
        self.quotes.drain(..at);
        let quote = self.quotes[0];
        let is = |level: Level, top| top == Some(level).filter(|level| level.quantity.0 > 0);
        counters.bbo_checked += 1;
        counters.bbo_mismatch += u64::from(!(is(quote.bid, top.bid) && is(quote.ask, top.ask)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::Fixed;

    fn level(quantity: i64) -> Level {
        Level { price: Fixed(100), quantity: Fixed(quantity) }
    }

    fn quote(update: u64) -> Quote {
        let ask = Level { price: Fixed(200), quantity: Fixed(5) };
        Quote { update, bid: level(update as i64), ask, time_ms: 0 }
    }

    fn top(last: u64, bid: i64) -> Top {
        Top { last, bid: Some(level(bid)), ask: Some(quote(1).ask) }
    }

    /// Checked and different after these.
    fn counts(play: impl FnOnce(&mut CrossCheck, &mut Counters)) -> (u64, u64) {
        let (mut check, mut counters) = (CrossCheck::new(), Counters::default());
        play(&mut check, &mut counters);
        (counters.bbo_checked, counters.bbo_mismatch)
    }

    #[test]
    fn compares_with_the_last_quote_that_is_not_newer_whichever_comes_first() {
        let before = counts(|check, counters| {
            [3, 5, 9].iter().for_each(|update| check.on_quote(&quote(*update), counters));
            check.on_top(top(7, 5), counters);
        });
        assert_eq!(before, (1, 0));
        let after = counts(|check, counters| {
            check.on_quote(&quote(3), counters);
            check.on_top(top(7, 5), counters);
            assert_eq!(counters.bbo_checked, 0, "a newer one may still come");
            check.on_quote(&quote(5), counters);
            assert_eq!(counters.bbo_checked, 0);
            check.on_quote(&quote(9), counters);
        });
        assert_eq!(after, (1, 0));
    }

    #[test]
    fn a_quote_of_the_same_update_is_enough() {
        assert_eq!(
            counts(|check, counters| {
                check.on_top(top(7, 7), counters);
                check.on_quote(&quote(7), counters);
            }),
            (1, 0)
        );
    }

    #[test]
    fn tells_a_wrong_price_quantity_and_side() {
        let different = |top| {
            counts(|check, counters| {
                check.on_quote(&quote(7), counters);
                check.on_top(top, counters);
            })
        };
        assert_eq!(different(top(7, 7)), (1, 0));
        assert_eq!(different(top(7, 8)), (1, 1));
        assert_eq!(different(Top { ask: None, ..top(7, 7) }), (1, 1));
        assert_eq!(different(Top { bid: Some(quote(1).ask), ..top(7, 7) }), (1, 1));
        let none = counts(|check, counters| {
            check.on_quote(&Quote { bid: Level::default(), ..quote(7) }, counters);
            check.on_top(Top { bid: None, ..top(7, 7) }, counters);
        });
        assert_eq!(none, (1, 0), "a quantity of nothing is no bid");
    }

    #[test]
    fn does_not_check_what_it_cannot_know() {
        let unknown = counts(|check, counters| {
            check.on_quote(&quote(9), counters);
            check.on_top(top(7, 5), counters);
            check.on_quote(&Quote { update: 0, ..quote(7) }, counters);
            check.on_top(top(20, 5), counters);
        });
        assert_eq!(unknown, (0, 0));
        let at_the_end = counts(|check, counters| {
            check.on_quote(&quote(9), counters);
            check.on_top(top(20, 9), counters);
            check.finish(counters);
        });
        assert_eq!(at_the_end, (1, 0));
    }

    #[test]
    fn forgets_the_oldest_when_there_are_too_many() {
        let (checked, different) = counts(|check, counters| {
            check.on_quote(&quote(1), counters);
            (2..1_000).for_each(|last| check.on_top(top(last, 1), counters));
            check.on_quote(&quote(2_000), counters);
            (2_001..9_000).for_each(|update| check.on_quote(&quote(update), counters));
            check.on_top(top(3_000, 3_000), counters);
        });
        assert_eq!((checked, different), (64, 0));
    }
}
