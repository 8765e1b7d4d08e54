use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The plain book that the ladder must not differ from.
#[derive(Default)]
struct Reference {
    bids: BTreeMap<i64, i64>,
    asks: BTreeMap<i64, i64>,
}

impl Reference {
    fn apply(&mut self, side: Side, level: Level) {
        let levels = if side == Side::Bid { &mut self.bids } else { &mut self.asks };
        if level.quantity.0 > 0 {
            levels.insert(level.price.0, level.quantity.0);
        } else {
            levels.remove(&level.price.0);
        }
    }

    fn levels(&self, side: Side) -> Vec<Level> {
        let level = |(price, quantity): (&i64, &i64)| of(*price, *quantity);
        match side {
            Side::Bid => self.bids.iter().rev().map(level).collect(),
            Side::Ask => self.asks.iter().map(level).collect(),
        }
    }
}

fn of(price: i64, quantity: i64) -> Level {
    Level { price: Fixed(price), quantity: Fixed(quantity) }
}

fn compare(book: &Book, reference: &Reference) {
    for side in [Side::Bid, Side::Ask] {
        let expected = reference.levels(side);
        let found: Vec<_> = book.levels(side).take(expected.len() + 1).collect();
        assert_eq!(found, expected, "{side:?}");
        assert_eq!(book.best(side), expected.first().copied());
        assert_eq!(book.len(side), expected.len());
        assert_eq!(book.is_empty(side), expected.is_empty());
    }
}

const TICK: i64 = 10_000_000;

/// What can happen to a book.
#[derive(Clone, Debug)]
enum Step {
    Apply(Side, Level),
    Load(Levels),
    Recentre,
    Clear,
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Bid), Just(Side::Ask)]
}

/// Near one of a few prices, on the grid or off it, and the ends of what there is.
fn price() -> impl Strategy<Value = i64> {
    let centre = prop_oneof![
        8 => Just(618_000i64),
        2 => Just(618_000 + 60_000),
        2 => Just(618_000 - 65_536 / 8 * 7),
        1 => Just(0),
        1 => Just(-70_000),
    ];
    prop_oneof![
        12 => (centre.clone(), -40i64..40).prop_map(|(centre, ticks)| (centre + ticks) * TICK),
        2 => (centre, -40_000i64..40_000).prop_map(|(centre, ticks)| (centre + ticks) * TICK),
        1 => 617_990 * TICK..618_010 * TICK,
        1 => prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(i64::MAX / TICK * TICK), Just(0)],
        1 => any::<i64>(),
    ]
}

fn quantity() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(0i64), 1 => any::<i64>(), 10 => 1i64..1_000_000]
}

fn any_level() -> impl Strategy<Value = Level> {
    (price(), quantity()).prop_map(|(price, quantity)| of(price, quantity))
}

fn step() -> impl Strategy<Value = Step> {
    let levels = || proptest::collection::vec(any_level(), 0..30);
    prop_oneof![
        60 => (side(), any_level()).prop_map(|(side, level)| Step::Apply(side, level)),
        2 => (levels(), levels()).prop_map(|(bids, asks)| Step::Load(Levels { bids, asks })),
        4 => Just(Step::Recentre),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn is_what_a_plain_tree_is_after_every_step(
        tick in prop_oneof![Just(None), Just(Some(Fixed(TICK))), any::<i64>().prop_map(|t| Some(Fixed(t)))],
        steps in proptest::collection::vec(step(), 1..160),
    ) {
        let (mut book, mut reference) = (Book::new(BookConfig { tick }), Reference::default());
        for step in steps {
            match step {
                Step::Apply(side, level) => {
                    book.apply(side, level);
                    reference.apply(side, level);
                }
                Step::Load(levels) => {
                    book.load(&levels);
                    reference = Reference::default();
                    levels.bids.iter().for_each(|level| reference.apply(Side::Bid, *level));
                    levels.asks.iter().for_each(|level| reference.apply(Side::Ask, *level));
                }
                Step::Recentre => book.recentre(),
                Step::Clear => {
                    book.clear();
                    reference = Reference::default();
                }
            }
            compare(&book, &reference);
        }
    }
}

fn loaded(tick: Option<i64>) -> Book {
    let mut book = Book::new(BookConfig { tick: tick.map(Fixed) });
    book.load(&Levels {
        bids: (0..1000).map(|n| of((618_000 - n) * TICK, 1 + n)).collect(),
        asks: (1..1000).map(|n| of((618_000 + n) * TICK, 1 + n)).collect(),
    });
    book
}

#[test]
fn learns_the_tick_from_the_best_prices_and_keeps_a_given_one() {
    assert_eq!(loaded(None).tick(), Fixed(TICK));
    assert_eq!(loaded(Some(TICK / 10)).tick(), Fixed(TICK / 10));
    let mut odd = Book::new(BookConfig::default());
    let mut levels = Levels::default();
    levels.bids.extend((0..100).map(|n| of((5_000 - n) * TICK, 1)));
    levels.bids.push(of(7, 1));
    odd.load(&levels);
    assert_eq!(odd.tick(), Fixed(TICK), "an odd price far away is not the grid's");
}

#[test]
fn a_finer_grid_than_the_learned_one_is_learned_when_idle() {
    let mut book = loaded(None);
    for n in 0..2_000 {
        book.apply(Side::Ask, of(618_001 * TICK - 1_000 * (n % 50), 1 + n));
    }
    assert!(!book.side(Side::Bid).is_off_grid() && book.side(Side::Ask).is_off_grid());
    let before: Vec<_> = book.levels(Side::Ask).collect();
    book.recentre();
    assert_eq!(book.tick(), Fixed(1_000));
    assert_eq!(book.levels(Side::Ask).collect::<Vec<_>>(), before);
}

#[test]
fn asks_for_a_new_window_when_the_best_price_has_drifted_out_of_it() {
    let mut book = loaded(None);
    assert!(!book.is_off_centre());
    for n in 0..200 {
        book.apply(Side::Bid, of((618_000 + 60_000 + n) * TICK, 5));
    }
    assert_eq!(book.best(Side::Bid), Some(of(678_199 * TICK, 5)));
    assert!(book.is_off_centre());
    book.recentre();
    assert!(!book.is_off_centre());
    assert_eq!(book.best(Side::Bid), Some(of(678_199 * TICK, 5)));
    assert_eq!(book.len(Side::Bid), 1200);
}

#[test]
fn a_best_price_off_the_grid_does_not_ask_for_a_new_window_again_and_again() {
    let mut book = loaded(Some(TICK));
    book.apply(Side::Bid, of(618_000 * TICK + 1, 5));
    book.recentre();
    (0..1_000).for_each(|n| book.apply(Side::Bid, of(618_000 * TICK + 1 - n % 2, 5)));
    assert!(!book.is_off_centre());
    assert_eq!(book.best(Side::Bid), Some(of(618_000 * TICK + 1, 5)));
}

#[test]
fn shows_itself_without_its_arrays() {
    assert!(format!("{:?}", loaded(None)).len() < 400);
}
