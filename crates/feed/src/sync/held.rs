//! Changes of a book that wait for a snapshot.

use std::collections::VecDeque;

use crate::market::{Depth, Level, Levels};

#[derive(Debug)]
struct Change {
    depth: Depth,
    bids: usize,
    asks: usize,
}

/// Changes in the order they came in, in memory that was asked for once.
#[derive(Debug)]
pub(super) struct Held {
    changes: VecDeque<Change>,
    levels: VecDeque<Level>,
    most_changes: usize,
    most_levels: usize,
}

impl Held {
    pub fn new(changes: usize, levels: usize) -> Self {
        Self {
            changes: VecDeque::with_capacity(changes),
            levels: VecDeque::with_capacity(levels),
            most_changes: changes,
            most_levels: levels,
        }
    }

    /// Keeps a change; the oldest ones make room for it. How many were lost for that, this one too
    /// if there is not enough room for it at all.
    pub fn push(&mut self, depth: &Depth, levels: &Levels) -> u64 {
        let count = levels.bids.len() + levels.asks.len();
        let mut lost = 0;
        while self.changes.len() >= self.most_changes
            || self.levels.len() + count > self.most_levels
        {
            lost += 1;
            if !self.pop() {
                return lost;
            }
        }
        self.changes.push_back(Change {
            depth: *depth,
            bids: levels.bids.len(),
            asks: levels.asks.len(),
        });
        self.levels.extend(&levels.bids);
        self.levels.extend(&levels.asks);
        lost
    }

    /// The oldest change: bids, asks.
    pub fn front(&mut self) -> Option<(Depth, &[Level], &[Level])> {
        let Change { depth, bids, asks } = *self.changes.front()?;
        let (bids, rest) = self.levels.make_contiguous().split_at(bids);
        Some((depth, bids, &rest[..asks]))
    }

    /// Forgets the oldest change, if there is one.
    pub fn pop(&mut self) -> bool {
        let change = self.changes.pop_front();
        change.map(|change| self.levels.drain(..change.bids + change.asks)).is_some()
    }

    pub fn depths(&self) -> impl Iterator<Item = &Depth> {
        self.changes.iter().map(|change| &change.depth)
    }

    pub fn clear(&mut self) {
        self.changes.clear();
        self.levels.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::Fixed;

    fn levels(price: i64, bids: usize, asks: usize) -> Levels {
        let level = Level { price: Fixed(price), quantity: Fixed::ONE };
        Levels { bids: vec![level; bids], asks: vec![level; asks] }
    }

    fn depth(last: u64) -> Depth {
        Depth { last, ..Depth::default() }
    }

    #[test]
    fn the_oldest_make_room_and_are_counted() {
        let mut held = Held::new(3, 10);
        assert_eq!(held.push(&depth(1), &levels(1, 2, 2)), 0);
        assert_eq!(held.push(&depth(2), &levels(2, 0, 0)), 0);
        assert_eq!(held.push(&depth(3), &levels(3, 1, 0)), 0);
        assert_eq!(held.push(&depth(4), &levels(4, 0, 1)), 1, "three changes at most");
        assert_eq!(held.push(&depth(5), &levels(5, 9, 0)), 2, "ten levels at most");
        assert_eq!(held.depths().map(|depth| depth.last).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(held.push(&depth(6), &levels(6, 11, 0)), 3, "it does not fit at all");
        assert!(held.front().is_none());
    }

    #[test]
    fn gives_back_what_it_was_given_whichever_way_its_memory_lies() {
        let mut held = Held::new(4, 8);
        for round in 0..50 {
            let (bids, asks) = (round % 3, round % 2);
            held.push(&depth(round as u64), &levels(round as i64, bids, asks));
            let (found, found_bids, found_asks) = held.front().unwrap();
            let expected =
                levels(found.last as i64, found.last as usize % 3, found.last as usize % 2);
            assert_eq!((found_bids, found_asks), (&expected.bids[..], &expected.asks[..]));
            if round % 2 == 1 {
                assert!(held.pop());
            }
        }
    }
}
