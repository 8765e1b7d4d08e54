//! What other processes see.

use quietcore_feed::market::Level;
use quietcore_feed::publish::{Follower, LEVELS, Publisher, What};

use super::setup::*;
use super::truth::Top;

/// All that was followed.
#[derive(Default)]
struct Heard {
    books: Vec<(usize, u64, Top)>,
    quotes: [Vec<u64>; 2],
    trades: [Vec<u64>; 2],
    lost: [u64; 2],
}

/// Whether what is in `some` is in `all`, in the same order.
fn is_within<T: PartialEq>(some: &[T], all: &[T]) -> bool {
    let mut all = all.iter();
    some.iter().all(|one| all.any(|other| one == other))
}

#[test]
fn a_follower_sees_what_the_strategy_on_the_hot_thread_sees() {
    let place = Place::new(steady("after 300 events gap 2 on btcusdt@depth"));
    let symbols = place.settings.symbols.clone();
    let publisher = Publisher::new(&symbols).unwrap();
    let mut follower = Follower::open_at(publisher.path()).unwrap();
    let mut engine = Followed::start_with(place.config(), publisher);
    let mut followed = Heard::default();
    let level = |level: &Level| (level.price.0, level.quantity.0);
    let mut follow = || {
        let read = follower.read(|event| {
            let symbol = symbols.iter().position(|symbol| symbol == event.symbol).unwrap();
            match event.what {
                What::Book { last, levels } => {
                    let top =
                        [&levels.bids, &levels.asks].map(|side| side.iter().map(level).collect());
                    followed.books.push((symbol, last, top));
                }
                What::Lost => followed.lost[symbol] += 1,
                What::Quote(quote) => followed.quotes[symbol].push(quote.update),
                What::Trade(trade) => followed.trades[symbol].push(trade.id),
                What::Mark(_) => {}
            }
        });
        read.unwrap();
        follower.missed()
    };
    engine.until("a lost book and a hundred of each since", |seen, _| {
        follow();
        seen.lost[0] > 0 && seen.fresh() >= 100
    });
    let mut seen = engine.end().seen;
    let missed = follow();
    for (_, _, top) in &mut seen.books {
        top.iter_mut().for_each(|side| side.truncate(LEVELS));
    }
    // A slow machine may miss some, and then knows how many.
    let count = |numbers: &[Vec<u64>; 2]| numbers.iter().map(Vec::len).sum::<usize>() as u64;
    let all = |books: &Vec<_>, quotes, trades, lost: [u64; 2]| {
        books.len() as u64 + count(quotes) + count(trades) + lost[0] + lost[1]
    };
    let told = all(&seen.books, &seen.quotes, &seen.trades, seen.lost);
    let Heard { books, quotes, trades, lost } = &followed;
    assert_eq!(all(books, quotes, trades, *lost) + missed, told);
    assert!(books.len() > 200 && is_within(books, &seen.books));
    for symbol in 0..2 {
        assert!(is_within(&quotes[symbol], &seen.quotes[symbol]));
        assert!(is_within(&trades[symbol], &seen.trades[symbol]));
    }
    println!("{told} told, {missed} missed");
}
