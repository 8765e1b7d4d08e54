//! OKX: spot, swaps and futures (API v5).
//!
//! Facts: www.okx.com/docs-v5, the headings named at each item. Quantities of swaps and futures
//! are numbers of contracts, kept as they are sent.

mod messages;

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Connection, Endpoint, Instrument, InstrumentsRequest, Keepalive, Rule, SnapshotRequest, Speed,
    Venue, VenueError, Wanted,
};
use crate::fixed::Fixed;
use crate::market::{Levels, Message};
use crate::scan::ScanError;

/// OKX.
#[derive(Clone, Copy, Debug)]
pub struct Okx;

/// Channels of one connection: our own limit, the venue names none.
const CHANNELS: usize = 200;

/// Channels of one request: far below the 64 KB that a request may have ("Subscribe").
const CHANNELS_PER_REQUEST: usize = 100;

/// "Connect" and "Subscribe": three requests a second, 480 an hour.
const PACE: Duration = Duration::from_millis(400);

impl Venue for Okx {
    fn name(&self) -> &'static str {
        "okx"
    }

    fn title(&self) -> &'static str {
        "OKX"
    }

    fn stream_host(&self) -> Endpoint {
        Endpoint { host: "ws.okx.com", port: 8443 }
    }

    fn rest_host(&self) -> Endpoint {
        Endpoint { host: "www.okx.com", port: 443 }
    }

    fn rule(&self) -> Rule {
        Rule::InStream
    }

    fn scan<'a>(&self, text: &'a [u8], levels: &mut Levels) -> Result<Message<'a>, ScanError> {
        messages::scan(text, levels)
    }

    /// `books` has 400 levels of each side and comes every 100 ms; the faster channels are for
    /// customers of higher fee tiers, who must log in ("Order book channel").
    fn connections(&self, symbols: &[&str], wanted: Wanted) -> Result<Vec<Connection>, VenueError> {
        if wanted.speed != Speed::Ms100 {
            let what = "public books at another speed than every 100 ms";
            return Err(VenueError::NotOffered { venue: self.title(), what });
        }
        if wanted.mark {
            let what = "channel with mark price, index price and funding rate together";
            return Err(VenueError::NotOffered { venue: self.title(), what });
        }
        let kinds =
            [Some("books"), wanted.quotes.then_some("bbo-tbt"), wanted.trades.then_some("trades")];
        let mut channels = Vec::new();
        for symbol in symbols {
            let symbol = instrument_name(symbol)?;
            channels.extend(kinds.iter().flatten().map(|kind| (*kind, symbol.clone())));
        }
        let connections = channels.chunks(CHANNELS).map(|channels| Connection {
            path: "/ws/v5/public".into(),
            streams: channels.iter().map(|(kind, symbol)| format!("{kind}:{symbol}")).collect(),
            subscribe: channels.chunks(CHANNELS_PER_REQUEST).zip(1..).map(request).collect(),
            pace: PACE,
        });
        Ok(connections.collect())
    }

    fn snapshot_levels(&self) -> usize {
        400
    }

    fn snapshot(&self, _symbol: &str) -> Option<SnapshotRequest> {
        None
    }

    /// "Connect": a connection without a message for 30 seconds is cut; the answer is `pong`.
    fn keepalive(&self) -> Option<Keepalive> {
        Some(Keepalive { text: "ping", every: Duration::from_secs(25) })
    }

    fn longest_connection(&self) -> Option<Duration> {
        None
    }

    /// "Get instruments": one request for each type among the names.
    fn instruments(&self, symbols: &[&str]) -> Vec<InstrumentsRequest> {
        let mut kinds: Vec<_> = symbols.iter().map(|symbol| kind_of(symbol)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let path = |kind| format!("/api/v5/public/instruments?instType={kind}");
        kinds.into_iter().map(|kind| InstrumentsRequest { path: path(kind) }).collect()
    }

    fn read_instruments(&self, answer: &[u8]) -> Result<Vec<Instrument>, VenueError> {
        let wrong = |why: String| VenueError::Answer { venue: self.title(), why };
        let answer: Value =
            serde_json::from_slice(answer).map_err(|error| wrong(error.to_string()))?;
        let list = answer["data"].as_array().filter(|_| answer["code"] == "0");
        let Some(list) = list else {
            let said = answer["msg"].as_str().unwrap_or("there is no \"data\"");
            return Err(wrong(said.to_owned()));
        };
        let instruments = list.iter().map(instrument);
        instruments.collect::<Option<_>>().ok_or_else(|| wrong("an entry has no \"instId\"".into()))
    }
}

fn request((channels, id): (&[(&str, String)], u32)) -> String {
    let channel = |(kind, symbol): &(&str, String)| json!({"channel": kind, "instId": symbol});
    let args: Vec<_> = channels.iter().map(channel).collect();
    json!({"id": id.to_string(), "op": "subscribe", "args": args}).to_string()
}

/// `BTC-USDT-SWAP`, `BTC-USDT-260925`, `BTC-USDT`.
fn kind_of(symbol: &str) -> &'static str {
    match symbol.to_ascii_uppercase().rsplit('-').next() {
        Some("SWAP") => "SWAP",
        Some(date) if !date.is_empty() && date.bytes().all(|byte| byte.is_ascii_digit()) => {
            "FUTURES"
        }
        _ => "SPOT",
    }
}

fn instrument(entry: &Value) -> Option<Instrument> {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let fixed = |key: &str| Fixed::parse(entry[key].as_str()?.as_bytes());
    Some(Instrument {
        symbol: entry["instId"].as_str()?.to_owned(),
        tick: fixed("tickSz"),
        step: fixed("lotSz"),
        contract: text("instType"),
        is_trading: entry["state"] == "live",
        status: text("state"),
    })
}

/// As the venue writes it: upper case.
fn instrument_name(symbol: &str) -> Result<String, VenueError> {
    let fits = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_');
    if !symbol.contains('-') || !symbol.chars().all(fits) {
        let why = "they are words with - between them, such as BTC-USDT-SWAP";
        return Err(VenueError::Symbol { symbol: symbol.to_owned(), venue: Okx.title(), why });
    }
    Ok(symbol.to_uppercase())
}

#[cfg(test)]
mod tests;
