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

/// Whoever is there is told.
impl<H: Handler> Handler for Option<H> {
    fn book(&mut self, symbol: usize, market: &Market) {
        if let Some(handler) = self {
            handler.book(symbol, market);
        }
    }

    fn lost(&mut self, symbol: usize) {
        if let Some(handler) = self {
            handler.lost(symbol);
        }
    }

    fn quote(&mut self, symbol: usize, quote: &Quote) {
        if let Some(handler) = self {
            handler.quote(symbol, quote);
        }
    }

    fn trade(&mut self, symbol: usize, trade: &Trade) {
        if let Some(handler) = self {
            handler.trade(symbol, trade);
        }
    }

    fn mark(&mut self, symbol: usize, mark: &Mark) {
        if let Some(handler) = self {
            handler.mark(symbol, mark);
        }
    }
}

/// The first is told, then the second.
impl<A: Handler, B: Handler> Handler for (A, B) {
    fn book(&mut self, symbol: usize, market: &Market) {
        self.0.book(symbol, market);
        self.1.book(symbol, market);
    }

    fn lost(&mut self, symbol: usize) {
        self.0.lost(symbol);
        self.1.lost(symbol);
    }

    fn quote(&mut self, symbol: usize, quote: &Quote) {
        self.0.quote(symbol, quote);
        self.1.quote(symbol, quote);
    }

    fn trade(&mut self, symbol: usize, trade: &Trade) {
        self.0.trade(symbol, trade);
        self.1.trade(symbol, trade);
    }

    fn mark(&mut self, symbol: usize, mark: &Mark) {
        self.0.mark(symbol, mark);
        self.1.mark(symbol, mark);
    }
}
