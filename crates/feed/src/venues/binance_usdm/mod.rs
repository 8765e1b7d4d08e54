//! Binance USD-M futures.
//!
//! Facts: developers.binance.com, "USDⓈ-M Futures", the pages named at each item. The streams are
//! split by purpose since 2026 ("Important WebSocket Change Notice"): books and quotes under
//! `/public`, trades and marks under `/market`; one connection cannot have both. The paths without
//! that part are switched off.

mod messages;
mod usual;

use std::time::Duration;

use serde_json::Value;

use super::request::escaped;
use super::{
    Connection, Endpoint, Instrument, InstrumentsRequest, Keepalive, Rule, SnapshotRequest, Speed,
    Venue, VenueError, Wanted,
};
use crate::fixed::Fixed;
use crate::market::{Levels, Message};
use crate::scan::ScanError;

/// Binance USD-M futures.
#[derive(Clone, Copy, Debug)]
pub struct BinanceUsdm;

/// Streams of one connection ("Connect": 1024 at most; the options' streams, which share the
/// hosts, 200). Fewer also keep a request's line short.
const STREAMS: usize = 200;

/// Levels of each side of a snapshot: the most there is ("Order Book").
const SNAPSHOT_LEVELS: u32 = 1000;

/// What a snapshot of so many levels costs ("Order Book": 2, 5, 10 and 20 for up to 50, 100, 500
/// and 1000 levels).
const SNAPSHOT_WEIGHT: u32 = 20;

/// `REQUEST_WEIGHT` per minute and IP address ("Exchange Information").
const WEIGHT_PER_MINUTE: u32 = 2400;

impl Venue for BinanceUsdm {
    fn name(&self) -> &'static str {
        "binance-usdm"
    }

    fn title(&self) -> &'static str {
        "Binance USD-M"
    }

    fn stream_host(&self) -> Endpoint {
        Endpoint { host: "fstream.binance.com", port: 443 }
    }

    fn rest_host(&self) -> Endpoint {
        Endpoint { host: "fapi.binance.com", port: 443 }
    }

    fn rule(&self) -> Rule {
        Rule::Bridge
    }

    fn scan<'a>(&self, text: &'a [u8], levels: &mut Levels) -> Result<Message<'a>, ScanError> {
        messages::scan(text, levels)
    }

    /// Combined streams, named in the path: nothing needs to be sent, so that neither the limit of
    /// ten messages a second nor an answer's loss matters.
    fn connections(&self, symbols: &[&str], wanted: Wanted) -> Result<Vec<Connection>, VenueError> {
        let speed = match wanted.speed {
            Speed::Ms0 => "@depth@0ms",
            Speed::Ms100 => "@depth@100ms",
            // The stream without a speed is that of 250 ms.
            Speed::Ms250 => "@depth",
            Speed::Ms500 => "@depth@500ms",
        };
        let public = [Some(speed), wanted.quotes.then_some("@bookTicker")];
        let market = [wanted.trades.then_some("@aggTrade"), wanted.mark.then_some("@markPrice@1s")];
        let names =
            symbols.iter().map(|symbol| stream_name(symbol)).collect::<Result<Vec<_>, _>>()?;
        let mut connections = Vec::new();
        for (route, kinds) in [("public", public), ("market", market)] {
            let streams: Vec<String> = names
                .iter()
                .flat_map(|name| kinds.iter().flatten().map(move |kind| format!("{name}{kind}")))
                .collect();
            connections.extend(streams.chunks(STREAMS).map(|streams| Connection {
                path: format!("/{route}/stream?streams={}", streams.join("/")),
                streams: streams.to_vec(),
                subscribe: Vec::new(),
                pace: Duration::ZERO,
            }));
        }
        Ok(connections)
    }

    fn snapshot_levels(&self) -> usize {
        SNAPSHOT_LEVELS as usize
    }

    fn snapshot(&self, symbol: &str) -> Option<SnapshotRequest> {
        let symbol = escaped(&symbol.to_ascii_uppercase());
        Some(SnapshotRequest {
            path: format!("/fapi/v1/depth?symbol={symbol}&limit={SNAPSHOT_LEVELS}"),
            weight: SNAPSHOT_WEIGHT,
            weight_per_minute: WEIGHT_PER_MINUTE,
        })
    }

    /// The venue pings every three minutes and wants a pong within ten ("Connect").
    fn keepalive(&self) -> Option<Keepalive> {
        None
    }

    fn longest_connection(&self) -> Option<Duration> {
        Some(Duration::from_secs(24 * 60 * 60))
    }

    fn instruments(&self, _symbols: &[&str]) -> Vec<InstrumentsRequest> {
        vec![InstrumentsRequest { path: "/fapi/v1/exchangeInfo".into() }]
    }

    fn read_instruments(&self, answer: &[u8]) -> Result<Vec<Instrument>, VenueError> {
        let wrong = |why: String| VenueError::Answer { venue: self.title(), why };
        let answer: Value =
            serde_json::from_slice(answer).map_err(|error| wrong(error.to_string()))?;
        let Some(symbols) = answer["symbols"].as_array() else {
            let said = answer["msg"].as_str().unwrap_or("there is no \"symbols\"");
            return Err(wrong(said.to_owned()));
        };
        let instruments = symbols.iter().map(instrument);
        instruments.collect::<Option<_>>().ok_or_else(|| wrong("an entry has no \"symbol\"".into()))
    }
}

/// An entry of `exchangeInfo`: the steps are in its filters.
fn instrument(entry: &Value) -> Option<Instrument> {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let filter = |kind: &str, key: &str| {
        let filter = entry["filters"].as_array()?.iter().find(|one| one["filterType"] == kind)?;
        Fixed::parse(filter[key].as_str()?.as_bytes())
    };
    Some(Instrument {
        symbol: entry["symbol"].as_str()?.to_owned(),
        tick: filter("PRICE_FILTER", "tickSize"),
        step: filter("LOT_SIZE", "stepSize"),
        contract: text("contractType"),
        is_trading: entry["status"] == "TRADING",
        status: text("status"),
    })
}

/// A symbol in a stream's name: lower case, escaped for the path.
fn stream_name(symbol: &str) -> Result<String, VenueError> {
    let fits = |char: char| char.is_alphanumeric() || char == '_';
    if symbol.is_empty() || !symbol.chars().all(fits) {
        let why = "they are letters, digits and _, such as BTCUSDT";
        let venue = BinanceUsdm.title();
        return Err(VenueError::Symbol { symbol: symbol.to_owned(), venue, why });
    }
    Ok(escaped(&symbol.to_lowercase()))
}

#[cfg(test)]
mod tests;
