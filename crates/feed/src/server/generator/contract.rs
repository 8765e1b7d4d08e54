//! The instruments that a generated market has, with the tick sizes of the real ones.

use super::super::book::Digits;
use super::super::decimal::ONE;

/// What is fixed about an instrument. Prices and quantities in 1e-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The symbol, upper case.
    pub symbol: String,
    /// How its texts are written.
    pub digits: Digits,
    /// The smallest step of a price.
    pub tick: i64,
    /// The smallest quantity.
    pub lot: i64,
    /// The price that the market starts at, and keeps near.
    pub start: i64,
}

/// Symbol, digits of a price and of a quantity, tick, start; tick and start in 1e-8.
type Known = (&'static str, u32, u32, i64, i64);

const KNOWN: [Known; 5] = [
    ("BTCUSDT", 2, 3, ONE / 10, 61_800 * ONE),
    ("ETHUSDT", 2, 3, ONE / 100, 2_600 * ONE),
    ("SOLUSDT", 4, 2, ONE / 100, 152 * ONE),
    ("XRPUSDT", 4, 1, ONE / 10_000, ONE / 10 * 6),
    ("DOGEUSDT", 5, 0, ONE / 100_000, ONE / 1_000 * 103),
];

impl Contract {
    /// The contract of a symbol; one that is not known is made up, always the same way.
    pub fn of(symbol: &str) -> Self {
        let symbol = symbol.to_ascii_uppercase();
        let (_, price, quantity, tick, start) = KNOWN
            .into_iter()
            .find(|known| known.0 == symbol)
            .unwrap_or(("", 3, 1, ONE / 1_000, 25 * ONE));
        let digits = Digits { price, quantity };
        Self { symbol, digits, tick, lot: ONE / 10_i64.pow(quantity), start }
    }
}
