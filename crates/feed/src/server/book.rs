//! A book as the exchange itself holds it: plain maps, because correctness is all it is for.

use std::collections::BTreeMap;

use super::decimal;
use crate::market::Side;

/// How many digits an instrument's texts have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digits {
    /// After the point of a price.
    pub price: u32,
    /// After the point of a quantity.
    pub quantity: u32,
}

/// All levels of one instrument, prices and quantities in 1e-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrueBook {
    /// Price to quantity.
    pub bids: BTreeMap<i64, i64>,
    /// Price to quantity.
    pub asks: BTreeMap<i64, i64>,
    /// The number of the last update that it holds.
    pub last: u64,
}

impl TrueBook {
    /// One side's levels.
    pub fn side(&self, side: Side) -> &BTreeMap<i64, i64> {
        match side {
            Side::Bid => &self.bids,
            Side::Ask => &self.asks,
        }
    }

    /// Sets a level; a quantity of 0 removes it.
    pub fn set(&mut self, side: Side, price: i64, quantity: i64) {
        let levels = match side {
            Side::Bid => &mut self.bids,
            Side::Ask => &mut self.asks,
        };
        if quantity == 0 {
            levels.remove(&price);
        } else {
            levels.insert(price, quantity);
        }
    }

    /// The best price of a side and what is there.
    pub fn best(&self, side: Side) -> Option<(i64, i64)> {
        let best = match side {
            Side::Bid => self.bids.last_key_value(),
            Side::Ask => self.asks.first_key_value(),
        };
        best.map(|(price, quantity)| (*price, *quantity))
    }

    /// The `limit` best levels of each side, best first, as Binance's `GET /fapi/v1/depth` answers.
    /// `time_ms` is the moment of the last update.
    pub fn snapshot(&self, limit: usize, digits: Digits, time_ms: u64) -> String {
        let mut out =
            format!("{{\"lastUpdateId\":{},\"E\":{time_ms},\"T\":{time_ms},\"bids\":", self.last);
        write_levels(&mut out, self.bids.iter().rev().take(limit), digits);
        out.push_str(",\"asks\":");
        write_levels(&mut out, self.asks.iter().take(limit), digits);
        out.push('}');
        out
    }
}

/// Writes `[["61652.80","0.195"],…]`.
pub(super) fn write_levels<'a>(
    out: &mut String,
    levels: impl Iterator<Item = (&'a i64, &'a i64)>,
    digits: Digits,
) {
    out.push('[');
    for (index, (price, quantity)) in levels.enumerate() {
        out.push_str(if index == 0 { "[\"" } else { ",[\"" });
        decimal::write(out, *price, digits.price);
        out.push_str("\",\"");
        decimal::write(out, *quantity, digits.quantity);
        out.push_str("\"]");
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_starts_with_the_best_of_each_side() {
        let mut book = TrueBook { last: 7, ..TrueBook::default() };
        for price in [100, 300, 200] {
            book.set(Side::Bid, price * decimal::ONE, decimal::ONE / 2);
            book.set(Side::Ask, (price + 300) * decimal::ONE, decimal::ONE);
        }
        book.set(Side::Ask, 400 * decimal::ONE, 0);
        let text = book.snapshot(2, Digits { price: 1, quantity: 3 }, 5);
        assert_eq!(
            text,
            r#"{"lastUpdateId":7,"E":5,"T":5,"bids":[["300.0","0.500"],["200.0","0.500"]],"asks":[["500.0","1.000"],["600.0","1.000"]]}"#
        );
    }
}
