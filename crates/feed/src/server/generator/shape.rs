//! The shapes of a market: how much changes at once, how far from the best price, how large.
//!
//! Quantiles of six minutes of BTCUSDT at Binance USD-M (6,551 depth messages of about 53 ms, 443
//! thousand levels), joined by straight lines. Whole numbers only, so that a seed gives the same
//! bytes on every machine.

use fastrand::Rng;

/// Ranks are of so many.
pub(super) const RANKS: u64 = 10_000;

/// `(rank, value)`, both ascending; the first rank is 0, the last [`RANKS`].
type Quantiles = [(u64, u64)];

/// Levels changed in one depth message.
pub(super) const LEVELS: &Quantiles = &[
    (0, 1),
    (100, 8),
    (1_000, 16),
    (2_500, 22),
    (5_000, 34),
    (7_500, 62),
    (9_000, 142),
    (9_500, 252),
    (9_900, 611),
    (9_990, 999),
    (RANKS, 1_226),
];

/// Changes of the best bid or ask in that time.
pub(super) const QUOTES: &Quantiles = &[
    (0, 0),
    (1_000, 0),
    (2_500, 1),
    (5_000, 4),
    (7_500, 9),
    (9_000, 24),
    (9_500, 49),
    (9_900, 98),
    (RANKS, 202),
];

/// Trades in that time.
pub(super) const TRADES: &Quantiles =
    &[(0, 0), (5_000, 0), (7_500, 1), (9_000, 4), (9_500, 11), (9_900, 49), (RANKS, 400)];

/// How far a changed level is from its side's best, in millionths of the price.
pub(super) const DISTANCE: &Quantiles = &[
    (0, 0),
    (1_000, 89),
    (2_500, 277),
    (5_000, 652),
    (7_500, 1_579),
    (9_000, 9_560),
    (9_500, 25_440),
    (9_600, 50_000),
    (9_900, 300_000),
    (RANKS, 900_000),
];

/// What is at a level, in the smallest quantity.
pub(super) const QUANTITY: &Quantiles = &[
    (0, 1),
    (1_000, 4),
    (2_500, 19),
    (5_000, 132),
    (7_500, 640),
    (9_000, 2_338),
    (9_500, 5_924),
    (RANKS, 60_000),
];

/// What is at the best level, in the smallest quantity.
pub(super) const BEST_QUANTITY: &Quantiles = &[
    (0, 1),
    (1_000, 81),
    (2_500, 670),
    (5_000, 2_677),
    (7_500, 5_081),
    (9_000, 8_448),
    (9_900, 18_537),
    (RANKS, 26_897),
];

/// The value at a rank.
pub(super) fn at(quantiles: &Quantiles, rank: u64) -> u64 {
    for pair in quantiles.windows(2) {
        if let [(low, below), (high, above)] = *pair {
            if rank <= high {
                return below + (above - below) * rank.saturating_sub(low) / (high - low).max(1);
            }
        }
    }
    quantiles.last().map_or(0, |last| last.1)
}

/// A value at random.
pub(super) fn draw(quantiles: &Quantiles, random: &mut Rng) -> u64 {
    at(quantiles, random.u64(0..=RANKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_between_two_ranks_lie_on_a_line() {
        assert_eq!(at(LEVELS, 0), 1);
        assert_eq!(at(LEVELS, 5_000), 34);
        assert_eq!(at(LEVELS, 6_250), 48);
        assert_eq!(at(LEVELS, RANKS), 1_226);
        for table in [LEVELS, QUOTES, TRADES, DISTANCE, QUANTITY, BEST_QUANTITY] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
            assert_eq!((table[0].0, table[table.len() - 1].0), (0, RANKS));
        }
    }
}
