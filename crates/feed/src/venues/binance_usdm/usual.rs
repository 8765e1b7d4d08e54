//! Messages with their keys in the order in which Binance sends them, and without whitespace: what
//! nearly all of them are. What is not so is `None`, and read in any order.

use super::messages::Kind;
use crate::market::{Level, Quote};
use crate::scan::Scanner;

/// What nearly every message begins with: the stream's name, if it is wrapped, and the event's.
#[inline(always)]
pub(super) fn beginning<'a>(scanner: &mut Scanner<'a>) -> Option<(Option<&'a [u8]>, Kind)> {
    let mut stream = None;
    if scanner.take_text(br#"{"stream":""#) {
        stream = Some(scanner.string_from_here().ok()?);
        if !scanner.take_text(br#","data":"#) {
            return None;
        }
    }
    if !scanner.take_text(br#"{"e":""#) {
        return None;
    }
    let kind = match () {
        () if scanner.take_text(br#"bookTicker""#) => Kind::Quote,
        () if scanner.take_text(br#"depthUpdate""#) => Kind::Depth,
        () if scanner.take_text(br#"trade""#) => Kind::Trade,
        () if scanner.take_text(br#"aggTrade""#) => Kind::AggTrade,
        () => return None,
    };
    Some((stream, kind))
}

/// The rest of a `bookTicker`, of 2024 or with what 2026 added: its symbol and what it says.
#[inline(always)]
pub(super) fn quote<'a>(scanner: &mut Scanner<'a>) -> Option<(&'a [u8], Quote)> {
    let update = scanner.number_behind(br#","u":"#)?;
    let symbol = scanner.string_behind(br#","s":""#)?;
    if scanner.take_text(br#","ps":""#) {
        scanner.string_from_here().ok()?;
    }
    let price = scanner.amount_behind(br#","b":""#)?;
    let bid = Level { price, quantity: scanner.amount_behind(br#","B":""#)? };
    let price = scanner.amount_behind(br#","a":""#)?;
    let ask = Level { price, quantity: scanner.amount_behind(br#","A":""#)? };
    let time_ms = scanner.number_behind(br#","T":"#)?;
    scanner.number_behind(br#","E":"#)?;
    if scanner.take_text(br#","st":"#) {
        scanner.number().ok()?;
    }
    scanner.take_text(b"}").then_some((symbol, Quote { update, bid, ask, time_ms }))
}
