//! What a strategy is told.

use crate::market::{Mark, Quote, Trade};
use crate::sync::Market;

/// What a strategy is told, on the hot thread, the moment it is known. What it takes is added to
/// the `queue` of the messages that came in the same read.
///
/// Instruments are numbers: their places in [`Config::symbols`](super::Config::symbols).
pub trait Handler {
    /// A book has changed and is proven.
    fn book(&mut self, symbol: usize, market: &Market) {
        let _ = (symbol, market);
    }

    /// A book is not proven any more; what it last was is of no use.
    fn lost(&mut self, symbol: usize) {
        let _ = symbol;
    }

    /// The best bid and ask, as the venue says.
    fn quote(&mut self, symbol: usize, quote: &Quote) {
        let _ = (symbol, quote);
    }

    /// A trade, once.
    fn trade(&mut self, symbol: usize, trade: &Trade) {
        let _ = (symbol, trade);
    }

    /// Mark price and funding.
    fn mark(&mut self, symbol: usize, mark: &Mark) {
        let _ = (symbol, mark);
    }
}

/// Nobody is told anything.
impl Handler for () {}
