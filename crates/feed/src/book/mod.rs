//! An order book of price levels.
