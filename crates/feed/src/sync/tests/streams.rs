//! Whole streams with faults: what is shown is always what the venue's book was.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

type Side2 = [BTreeMap<i64, i64>; 2];

/// A venue with one instrument: every change it sent, and its book after each.
struct Venue {
    changes: Vec<(Depth, Levels)>,
    books: BTreeMap<u64, Side2>,
    first: Side2,
}

fn set(book: &mut Side2, levels: &Levels) {
    for (side, levels) in book.iter_mut().zip([&levels.bids, &levels.asks]) {
        for level in levels {
            if level.quantity.0 == 0 {
                side.remove(&level.price.0);
            } else {
                side.insert(level.price.0, level.quantity.0);
            }
        }
    }
}

fn rows(side: &BTreeMap<i64, i64>) -> Vec<Level> {
    side.iter().map(|(price, quantity)| level(*price, *quantity)).collect()
}

/// One change: how far the middle moves, how the numbers jump, distances and quantities.
type Move = (i64, u64, u64, Vec<(bool, i64, i64)>);

impl Venue {
    fn new(rule: Rule, moves: &[Move]) -> Self {
        let mut middle = 1_000;
        let first: Side2 = [
            (1..20).map(|n| (middle - n, n)).collect(),
            (1..20).map(|n| (middle + n, n)).collect(),
        ];
        let (mut book, mut last) = (first.clone(), 100);
        let mut venue = Self { changes: Vec::new(), books: [(last, first.clone())].into(), first };
        for (step, jump, length, wanted) in moves {
            middle += step;
            let mut levels = Levels::default();
            // What the middle has passed is traded away.
            let passed = |side: &BTreeMap<i64, i64>, is: &dyn Fn(i64) -> bool| {
                side.keys().filter(|price| is(**price)).map(|p| level(*p, 0)).collect::<Vec<_>>()
            };
            levels.bids = passed(&book[0], &|price| price >= middle);
            levels.asks = passed(&book[1], &|price| price <= middle);
            for (is_bid, distance, quantity) in wanted {
                let side = if *is_bid { &mut levels.bids } else { &mut levels.asks };
                let distance = if *is_bid { -distance } else { *distance };
                side.push(level(middle + distance, *quantity));
            }
            set(&mut book, &levels);
            let end = last + jump + length;
            let first = if rule == Rule::Bridge { last + jump } else { end };
            venue.changes.push((change(first, end, last), levels));
            last = end;
            venue.books.insert(last, book.clone());
        }
        venue
    }

    /// The book as it is within or after the change with this index.
    fn snapshot(&self, index: usize, is_within: bool) -> (Depth, Levels) {
        let (depth, levels) = &self.changes[index];
        let is_within = is_within && depth.first < depth.last;
        let mut book = self.books[&depth.previous.unwrap()].clone();
        let mut taken = levels.clone();
        if is_within {
            // What is gone is gone already, what is new is not there yet.
            taken.bids.retain(|level| level.quantity.0 == 0);
            taken.asks.retain(|level| level.quantity.0 == 0);
        }
        set(&mut book, &taken);
        let last = if is_within { depth.first } else { depth.last };
        (snapshot(last), Levels { bids: rows(&book[0]), asks: rows(&book[1]) })
    }

    /// Whatever is shown is what the venue's book was at the same update.
    fn check(&self, market: &Market) {
        let Some(book) = market.book() else { return };
        let expected = &self.books[&market.last()];
        let mut bids: Vec<_> = book.levels(Side::Bid).collect();
        bids.reverse();
        assert_eq!(bids, rows(&expected[0]));
        assert_eq!(book.levels(Side::Ask).collect::<Vec<_>>(), rows(&expected[1]));
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Drop,
    Double,
    /// This and the next in the wrong order.
    Swap,
    /// An old snapshot comes, so many changes old.
    OldSnapshot(usize),
    /// A change from so long ago comes again.
    Echo(usize),
    /// A snapshot that is ahead of the stream.
    EarlySnapshot(usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        30 => Just(Fault::None),
        2 => Just(Fault::Drop),
        2 => Just(Fault::Double),
        2 => Just(Fault::Swap),
        2 => (1usize..40).prop_map(Fault::OldSnapshot),
        2 => (1usize..40).prop_map(Fault::Echo),
        2 => (0usize..6).prop_map(Fault::EarlySnapshot),
    ]
}

fn moves() -> impl Strategy<Value = Vec<(Move, Fault)>> {
    let levels = proptest::collection::vec((any::<bool>(), 1i64..40, 0i64..5), 0..12);
    let one = (-3i64..=3, 1u64..50, 0u64..20, levels);
    proptest::collection::vec((one, fault()), 2..120)
}

/// What the market is told, and what a plain reading of the rules says of it.
struct Play<'a> {
    venue: &'a Venue,
    market: Market,
    gaps: u64,
}

impl Play<'_> {
    fn send(&mut self, index: usize) {
        let (depth, levels) = &self.venue.changes[index];
        let was_live = self.market.book().is_some();
        let (last, gaps) = (self.market.last(), self.market.counters().gaps);
        let outcome = self.market.on_depth(depth, levels);
        let is_missing = depth.last > last && depth.previous != Some(last);
        if was_live {
            assert_eq!(outcome == Outcome::Gap, is_missing, "{depth:?} after {last}");
            self.gaps += u64::from(is_missing);
            assert_eq!(self.market.counters().gaps - gaps, u64::from(is_missing));
        }
        self.venue.check(&self.market);
    }

    fn snapshot(&mut self, index: usize, is_within: bool) {
        let (depth, levels) = self.venue.snapshot(index, is_within);
        let _ = self.market.on_depth(&depth, &levels);
        self.venue.check(&self.market);
    }

    /// A snapshot where one is needed; it comes some time after it was asked for.
    fn heal(&mut self, index: usize, delay: usize) {
        let is_bridge = self.market.rule == Rule::Bridge;
        if self.market.needs_snapshot() && (!is_bridge || index % (delay + 1) == 0) {
            self.snapshot(index, is_bridge && index % 2 == 0);
        }
    }

    fn step(&mut self, index: usize, fault: Fault) {
        let is_bridge = self.market.rule == Rule::Bridge;
        match fault {
            Fault::Drop => return,
            Fault::Swap if index + 1 < self.venue.changes.len() => self.send(index + 1),
            Fault::OldSnapshot(age) if is_bridge => self.snapshot(index.saturating_sub(age), false),
            Fault::EarlySnapshot(lead) if is_bridge => {
                self.snapshot((index + lead).min(self.venue.changes.len() - 1), lead % 2 == 0);
            }
            Fault::Echo(age) if is_bridge => self.send(index.saturating_sub(age)),
            _ => {}
        }
        self.send(index);
        if matches!(fault, Fault::Double) {
            self.send(index);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_gap_is_found_and_nothing_wrong_is_shown(
        moves in moves(),
        in_stream in any::<bool>(),
        delay in 0usize..5,
    ) {
        let rule = if in_stream { Rule::InStream } else { Rule::Bridge };
        let (moves, faults): (Vec<_>, Vec<_>) = moves.into_iter().unzip();
        let venue = Venue::new(rule, &moves);
        let config = MarketConfig { held_changes: 20, held_levels: 300, ..MarketConfig::default() };
        let mut play = Play { venue: &venue, market: Market::new(rule, config), gaps: 0 };
        for (index, fault) in faults.into_iter().enumerate() {
            play.step(index, fault);
            play.heal(index, delay);
            if play.market.is_untidy() {
                play.market.tidy();
            }
        }
        prop_assert!(play.market.counters().gaps >= play.gaps);
        // With a fresh snapshot and one more of its changes all is well again.
        let end = venue.changes.len() - 1;
        if play.market.book().is_none() {
            play.snapshot(end, false);
            play.send(end);
        }
        if play.market.last() == venue.changes[end].0.last {
            prop_assert!(play.market.book().is_some());
        }
        venue.check(&play.market);
        prop_assert_eq!(play.market.counters().crossed, 0);
    }

    #[test]
    fn a_stream_without_faults_is_live_from_the_first_snapshot_on(moves in moves()) {
        let moves: Vec<_> = moves.into_iter().map(|(one, _)| one).collect();
        let venue = Venue::new(Rule::Bridge, &moves);
        let mut hashes = Vec::new();
        for split in [0, venue.changes.len() / 2] {
            let mut play =
                Play { venue: &venue, market: Market::new(Rule::Bridge, MarketConfig::default()), gaps: 0 };
            (0..=split).for_each(|index| play.send(index));
            let first = Levels { bids: rows(&venue.first[0]), asks: rows(&venue.first[1]) };
            let outcome = play.market.on_depth(&snapshot(100), &first);
            prop_assert_eq!(outcome, Outcome::Applied);
            (split + 1..venue.changes.len()).for_each(|index| play.send(index));
            let counters = *play.market.counters();
            prop_assert_eq!(counters.bridged, venue.changes.len() as u64);
            prop_assert_eq!((counters.gaps, counters.crossed, counters.duplicates), (0, 0, 0));
            prop_assert!(play.market.book().is_some());
            hashes.push(play.market.event_hash());
        }
        prop_assert_eq!(hashes[0], hashes[1], "when the snapshot came does not matter");
    }
}
