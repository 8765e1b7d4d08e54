//! The events of a generated market as Binance USD-M writes them.
//!
//! Fields after the exchange's documentation and its notices of 2026, which added `st` and `ps` to
//! depth and quotes, `nq` to trades and `ap` to mark prices.

use std::fmt::Write;

use super::super::decimal;
use super::contract::Contract;

/// Writes JSON into a `String`.
pub(super) struct Text<'a> {
    out: String,
    contract: &'a Contract,
    time_ms: u64,
    has_fields_of_2026: bool,
}

/// A trade to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct TradeLine {
    pub(super) id: u64,
    pub(super) price: i64,
    pub(super) quantity: i64,
    pub(super) is_buyer_maker: bool,
}

impl<'a> Text<'a> {
    pub(super) fn new(contract: &'a Contract, time_ms: u64, has_fields_of_2026: bool) -> Self {
        Self { out: String::with_capacity(256), contract, time_ms, has_fields_of_2026 }
    }

    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        let written = self.out.write_fmt(text);
        debug_assert!(written.is_ok(), "a String takes everything");
    }

    fn price(&mut self, key: &str, value: i64) {
        self.add(format_args!(",\"{key}\":\""));
        decimal::write(&mut self.out, value, self.contract.digits.price);
        self.out.push('"');
    }

    fn quantity(&mut self, key: &str, value: i64) {
        self.add(format_args!(",\"{key}\":\""));
        decimal::write(&mut self.out, value, self.contract.digits.quantity);
        self.out.push('"');
    }

    fn fields_of_2026(&mut self) {
        if self.has_fields_of_2026 {
            let symbol = &self.contract.symbol;
            self.out.push_str(",\"st\":1,\"ps\":\"");
            self.out.push_str(symbol);
            self.out.push('"');
        }
    }

    pub(super) fn depth(
        mut self,
        ids: (u64, u64, u64),
        levels: impl FnOnce(&mut String, &Contract),
    ) -> String {
        let (time, symbol) = (self.time_ms, &self.contract.symbol);
        let (first, last, previous) = ids;
        self.add(format_args!(
            "{{\"e\":\"depthUpdate\",\"E\":{time},\"T\":{time},\"s\":\"{symbol}\""
        ));
        self.fields_of_2026();
        self.add(format_args!(",\"U\":{first},\"u\":{last},\"pu\":{previous}"));
        levels(&mut self.out, self.contract);
        self.out.push('}');
        self.out
    }

    pub(super) fn quote(mut self, update: u64, bid: (i64, i64), ask: (i64, i64)) -> String {
        let (time, symbol) = (self.time_ms, &self.contract.symbol);
        self.add(format_args!("{{\"e\":\"bookTicker\",\"u\":{update},\"s\":\"{symbol}\""));
        self.price("b", bid.0);
        self.quantity("B", bid.1);
        self.price("a", ask.0);
        self.quantity("A", ask.1);
        self.add(format_args!(",\"T\":{time},\"E\":{time}"));
        self.fields_of_2026();
        self.out.push('}');
        self.out
    }

    pub(super) fn trade(mut self, trade: TradeLine) -> String {
        let (time, symbol, id) = (self.time_ms, &self.contract.symbol, trade.id);
        self.add(format_args!(
            "{{\"e\":\"trade\",\"E\":{time},\"T\":{time},\"s\":\"{symbol}\",\"t\":{id}"
        ));
        self.price("p", trade.price);
        self.quantity("q", trade.quantity);
        self.add(format_args!(",\"X\":\"MARKET\",\"m\":{}}}", trade.is_buyer_maker));
        self.out
    }

    pub(super) fn aggregate_trade(mut self, trade: TradeLine) -> String {
        let (time, symbol, id) = (self.time_ms, &self.contract.symbol, trade.id);
        self.add(format_args!("{{\"e\":\"aggTrade\",\"E\":{time},\"a\":{id},\"s\":\"{symbol}\""));
        self.price("p", trade.price);
        self.quantity("q", trade.quantity);
        if self.has_fields_of_2026 {
            self.quantity("nq", trade.quantity);
        }
        self.add(format_args!(
            ",\"f\":{id},\"l\":{id},\"T\":{time},\"m\":{}}}",
            trade.is_buyer_maker
        ));
        self.out
    }

    pub(super) fn mark(mut self, price: i64, index: i64) -> String {
        const FUNDING_EVERY_MS: u64 = 8 * 3_600 * 1_000;
        let (time, symbol) = (self.time_ms, &self.contract.symbol);
        let next = (time / FUNDING_EVERY_MS + 1) * FUNDING_EVERY_MS;
        self.add(format_args!("{{\"e\":\"markPriceUpdate\",\"E\":{time},\"s\":\"{symbol}\""));
        self.exact("p", price);
        if self.has_fields_of_2026 {
            self.exact("ap", price);
        }
        self.exact("P", index);
        self.exact("i", index);
        self.add(format_args!(",\"r\":\"0.00010000\",\"T\":{next}}}"));
        self.out
    }

    fn exact(&mut self, key: &str, value: i64) {
        self.add(format_args!(",\"{key}\":\""));
        decimal::write(&mut self.out, value, 8);
        self.out.push('"');
    }
}
