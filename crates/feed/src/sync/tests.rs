use super::*;
use crate::market::Level;

mod rules;
mod streams;

fn level(price: i64, quantity: i64) -> Level {
    Level { price: Fixed(price), quantity: Fixed(quantity) }
}

fn levels(bids: &[(i64, i64)], asks: &[(i64, i64)]) -> Levels {
    let side = |rows: &[(i64, i64)]| rows.iter().map(|(p, q)| level(*p, *q)).collect();
    Levels { bids: side(bids), asks: side(asks) }
}

/// A change with the updates `first` to `last` that follows `previous`.
fn change(first: u64, last: u64, previous: u64) -> Depth {
    Depth { first, last, previous: Some(previous), ..Depth::default() }
}

fn snapshot(last: u64) -> Depth {
    Depth { is_snapshot: true, first: last, last, ..Depth::default() }
}

/// A bid at 100 and an ask at 200.
fn whole() -> Levels {
    levels(&[(100, 1), (90, 1)], &[(200, 1), (210, 1)])
}

/// A change of the bid at 100.
fn bid(quantity: i64) -> Levels {
    levels(&[(100, quantity)], &[])
}
