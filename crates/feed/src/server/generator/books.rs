//! What OKX's `books` channel shows of a book: 400 levels a side, and a checksum.
//!
//! <https://www.okx.com/docs-v5/en/#order-book-trading-market-data-ws-order-book-channel>

use std::fmt::Write;

use super::super::book::TrueBook;
use super::super::decimal;
use super::contract::Contract;

/// Levels a side.
const LEVELS: usize = 400;
/// Levels a side under the checksum.
const CHECKED: usize = 25;

type Rows = Vec<(i64, i64)>;

/// What was shown last.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// Both by ascending price.
    bids: Rows,
    asks: Rows,
    last: u64,
}

/// Levels that are new or changed, and those that are no longer shown, with a quantity of 0. All by
/// ascending price.
fn changes(old: &Rows, new: &Rows) -> Rows {
    let mut rows = Rows::new();
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match (old.peek(), new.peek()) {
            (None, None) => return rows,
            (Some(before), Some(after)) if before.0 == after.0 => {
                if before.1 != after.1 {
                    rows.push(**after);
                }
                old.next();
                new.next();
            }
            (Some(before), after) if after.is_none_or(|after| before.0 < after.0) => {
                rows.push((before.0, 0));
                old.next();
            }
            (_, after) => {
                rows.extend(after.copied().copied());
                new.next();
            }
        }
    }
}

impl View {
    /// The view of a book.
    pub(super) fn of(book: &TrueBook) -> Self {
        let level = |(price, quantity): (&i64, &i64)| (*price, *quantity);
        let mut bids: Rows = book.bids.iter().rev().take(LEVELS).map(level).collect();
        bids.reverse();
        let asks = book.asks.iter().take(LEVELS).map(level).collect();
        Self { bids, asks, last: book.last }
    }

    /// The message that shows all of it.
    pub(super) fn snapshot(&self, contract: &Contract, time_ms: u64) -> String {
        let sides = [self.bids.clone(), self.asks.clone()];
        self.message("snapshot", sides, "-1", contract, time_ms)
    }

    /// Follows the book; what changed and the number before, if anything did.
    pub(super) fn follow(&mut self, book: &TrueBook) -> Option<([Rows; 2], u64)> {
        let new = Self::of(book);
        let sides = [changes(&self.bids, &new.bids), changes(&self.asks, &new.asks)];
        if sides.iter().all(Vec::is_empty) {
            return None;
        }
        Some((sides, std::mem::replace(self, new).last))
    }

    /// The message that tells what changed.
    pub(super) fn update(
        &self,
        (sides, previous): ([Rows; 2], u64),
        contract: &Contract,
        time_ms: u64,
    ) -> String {
        self.message("update", sides, &previous.to_string(), contract, time_ms)
    }

    fn message(
        &self,
        action: &str,
        [mut bids, asks]: [Rows; 2],
        previous: &str,
        contract: &Contract,
        time_ms: u64,
    ) -> String {
        bids.reverse();
        let mut out = format!("{{\"action\":\"{action}\",\"data\":[{{\"asks\":");
        rows(&mut out, &asks, contract);
        out.push_str(",\"bids\":");
        rows(&mut out, &bids, contract);
        let (checksum, last) = (self.checksum(contract), self.last);
        let written = write!(
            out,
            ",\"ts\":\"{time_ms}\",\"checksum\":{checksum},\"prevSeqId\":{previous},\"seqId\":{last}}}]}}"
        );
        debug_assert!(written.is_ok(), "a String takes everything");
        out
    }

    /// CRC-32 of `bid:size:ask:size:…` over the best 25 of each side, as a signed number.
    fn checksum(&self, contract: &Contract) -> i32 {
        let mut text = String::new();
        let (mut bids, mut asks) = (self.bids.iter().rev(), self.asks.iter());
        for _ in 0..CHECKED {
            for (price, quantity) in [bids.next(), asks.next()].into_iter().flatten() {
                if !text.is_empty() {
                    text.push(':');
                }
                decimal::write(&mut text, *price, contract.digits.price);
                text.push(':');
                decimal::write(&mut text, *quantity, contract.digits.quantity);
            }
        }
        crc32fast::hash(text.as_bytes()) as i32
    }
}

/// `[[price, size, "0", orders], …]`; how many orders there are is made up from the quantity.
fn rows(out: &mut String, levels: &[(i64, i64)], contract: &Contract) {
    out.push('[');
    for (index, (price, quantity)) in levels.iter().enumerate() {
        out.push_str(if index == 0 { "[\"" } else { ",[\"" });
        decimal::write(out, *price, contract.digits.price);
        out.push_str("\",\"");
        decimal::write(out, *quantity, contract.digits.quantity);
        let lots = quantity / contract.lot;
        let orders = if lots == 0 { 0 } else { 1 + lots % 7 };
        out.push_str("\",\"0\",\"");
        out.push_str(&orders.to_string());
        out.push_str("\"]");
    }
    out.push(']');
}
