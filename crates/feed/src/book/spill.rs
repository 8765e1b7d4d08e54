//! Levels that are not in the window: few, far from the price, and at the same prices again and again.

use super::ladder::Key;

/// Room for so many prices without asking for memory. A real book of 10,000 levels has some hundreds
/// to thousands outside of the window.
const ROOM: usize = 1 << 13;

/// Levels by key, in one piece of memory.
///
/// A tree would ask for memory now and then. Here a level that goes away leaves its key behind, with
/// a quantity of nothing, and comes back to it without anything being moved; such keys are thrown out
/// when there is no room for a new one.
pub(super) struct Spill {
    /// By key, ascending.
    levels: Vec<(Key, i64)>,
    /// Those with a quantity.
    count: usize,
}

impl Spill {
    pub fn new() -> Self {
        Self { levels: Vec::with_capacity(ROOM), count: 0 }
    }

    fn find(&self, key: Key) -> Result<usize, usize> {
        self.levels.binary_search_by_key(&key, |(key, _)| *key)
    }

    pub fn insert(&mut self, key: Key, quantity: i64) {
        let mut found = self.find(key);
        if found.is_err() && self.levels.len() == self.levels.capacity() {
            self.levels.retain(|(_, quantity)| *quantity != 0);
            found = self.find(key);
        }
        match found {
            Ok(at) => {
                self.count += usize::from(self.levels[at].1 == 0);
                self.levels[at].1 = quantity;
            }
            Err(at) => {
                self.levels.insert(at, (key, quantity));
                self.count += 1;
            }
        }
    }

    /// Whether there was one.
    pub fn remove(&mut self, key: Key) -> bool {
        let Some(level) = self.find(key).ok().map(|at| &mut self.levels[at]) else { return false };
        let was_there = level.1 != 0;
        level.1 = 0;
        self.count -= usize::from(was_there);
        was_there
    }

    /// The quantity; nothing where there is no level.
    pub fn get(&self, key: Key) -> i64 {
        self.find(key).map_or(0, |at| self.levels[at].1)
    }

    pub fn best(&self) -> Option<Key> {
        self.iter().peek().map(|(key, _)| key)
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn clear(&mut self) {
        self.levels.clear();
        self.count = 0;
    }

    /// Best first.
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.levels }.without_gone()
    }
}

/// Levels as `(key, quantity)`, best first.
pub(super) struct Iter<'a> {
    /// The last one is a level.
    rest: &'a [(Key, i64)],
}

impl Iter<'_> {
    fn without_gone(mut self) -> Self {
        while let [rest @ .., (_, 0)] = self.rest {
            self.rest = rest;
        }
        self
    }

    pub fn peek(&self) -> Option<(Key, i64)> {
        self.rest.last().copied()
    }
}

impl Iterator for Iter<'_> {
    type Item = (Key, i64);

    fn next(&mut self) -> Option<(Key, i64)> {
        let (level, rest) = self.rest.split_last()?;
        self.rest = Self { rest }.without_gone().rest;
        Some(*level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_what_a_tree_is(steps in proptest::collection::vec((-50i64..50, 0i64..4), 0..300)) {
            let (mut spill, mut tree) = (Spill::new(), BTreeMap::new());
            // So little room that keys without a level have to go.
            spill.levels = Vec::with_capacity(16);
            for (key, quantity) in steps {
                if quantity > 0 {
                    spill.insert(key, quantity);
                    tree.insert(key, quantity);
                } else {
                    prop_assert_eq!(spill.remove(key), tree.remove(&key).is_some());
                }
                prop_assert!(spill.iter().eq(tree.iter().rev().map(|(k, q)| (*k, *q))));
                prop_assert_eq!(spill.len(), tree.len());
                prop_assert_eq!(spill.best(), tree.keys().next_back().copied());
                prop_assert_eq!(spill.get(key), tree.get(&key).copied().unwrap_or(0));
            }
        }
    }
}
