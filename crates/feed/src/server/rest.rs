//! The REST interface, as much of Binance's as a market-data client asks for.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::decimal;
use super::fault::{self, Armed, Request};
use super::http::{Answer, Head};
use super::source::{Age, Listing, Source};

/// The limits that `GET /fapi/v1/depth` takes, and their weight.
/// <https://developers.binance.com/docs/derivatives/usds-margined-futures/market-data/rest-api/Order-Book>
const DEPTHS: [(usize, u32); 7] =
    [(5, 2), (10, 2), (20, 2), (50, 2), (100, 5), (500, 10), (1_000, 20)];

/// The weight used in the current minute.
#[derive(Debug)]
pub(super) struct Weights {
    since: Instant,
    used: u32,
    most: u32,
}

impl Weights {
    pub(super) fn new(now: Instant, most: u32) -> Self {
        Self { since: now, used: 0, most }
    }

    /// Adds a request's weight. Where that is too much: how long until the next minute.
    fn add(&mut self, weight: u32, now: Instant) -> Result<u32, Duration> {
        const MINUTE: Duration = Duration::from_secs(60);
        if now.duration_since(self.since) >= MINUTE {
            (self.since, self.used) = (now, 0);
        }
        self.used = self.used.saturating_add(weight);
        if self.used > self.most {
            return Err(MINUTE.saturating_sub(now.duration_since(self.since)));
        }
        Ok(self.used)
    }
}

fn error(status: u16, code: i32, message: &str) -> Answer {
    Answer::new(status, json!({ "code": code, "msg": message }).to_string())
}

/// What a scripted refusal looks like.
pub(super) fn refusal(status: u16, retry_after: Option<u64>) -> Answer {
    let (code, message) = match status {
        418 => (
            -1003,
            "Way too many requests; IP is banned. Please use the websocket for live updates.",
        ),
        429 => (-1003, "Too many requests. Please use the websocket for live updates."),
        503 => (-1008, "Server is currently overloaded with other requests. Please try again."),
        _ => (-1000, "An unknown error occurred while processing the request."),
    };
    Answer { retry_after, ..error(status, code, message) }
}

/// What is left of the venue when a request is answered.
pub(super) struct Desk<'a> {
    pub(super) source: &'a Source,
    pub(super) armed: &'a Armed,
    pub(super) weights: &'a mut Weights,
    pub(super) now: Instant,
}

impl Desk<'_> {
    /// Answers a request that is no upgrade.
    pub(super) fn answer(&mut self, head: &Head) -> Answer {
        if head.method != "GET" {
            return error(405, -1000, "Only GET is served here.");
        }
        if let Some(fault::Answer::Refuse(status, after)) = self.armed.answer(Request::Rest) {
            return refusal(status, after);
        }
        let limit = head.parameter("limit").map_or(Some(500), |limit| limit.parse().ok());
        let depth = limit.and_then(|limit: usize| DEPTHS.into_iter().find(|it| it.0 == limit));
        let weight = match (head.path(), depth) {
            ("/fapi/v1/depth", Some((_, weight))) => weight,
            _ => 1,
        };
        let used = match self.weights.add(weight, self.now) {
            Ok(used) => used,
            Err(wait) => return refusal(429, Some(wait.as_secs() + 1)),
        };
        let answer = match head.path() {
            "/fapi/v1/ping" => Answer::new(200, "{}".into()),
            "/fapi/v1/time" => {
                Answer::new(200, json!({ "serverTime": self.source.time_ms() }).to_string())
            }
            "/fapi/v1/exchangeInfo" => Answer::new(200, self.exchange_info().to_string()),
            "/fapi/v1/depth" => match depth {
                Some((limit, _)) => self.depth(head.parameter("symbol"), limit),
                None => error(400, -4021, "The limit is not a valid depth limit."),
            },
            _ => error(404, -5000, "Path not found."),
        };
        Answer { weight: Some(used), ..answer }
    }

    fn depth(&self, symbol: Option<&str>, limit: usize) -> Answer {
        let Some(symbol) = symbol else {
            let message =
                "Mandatory parameter 'symbol' was not sent, was empty/null, or malformed.";
            return error(400, -1102, message);
        };
        let Some(symbol) = self.source.symbol(symbol) else {
            return error(400, -1121, "Invalid symbol.");
        };
        let age = match self.armed.answer(Request::Snapshot) {
            Some(fault::Answer::Book(age)) => age,
            _ => Age::Now,
        };
        match self.source.snapshot(symbol, limit, age) {
            Some(book) => Answer::new(200, book),
            None => error(503, -1001, "The book is not known."),
        }
    }

    fn exchange_info(&self) -> Value {
        let symbols: Vec<Value> = self.source.listings().iter().map(listing).collect();
        json!({
            "timezone": "UTC",
            "serverTime": self.source.time_ms(),
            "rateLimits": [{
                "rateLimitType": "REQUEST_WEIGHT",
                "interval": "MINUTE",
                "intervalNum": 1,
                "limit": self.weights.most,
            }],
            "exchangeFilters": [],
            "symbols": symbols,
        })
    }
}

fn listing(listing: &Listing) -> Value {
    let text = |value: i64, digits: u32| {
        let mut out = String::new();
        decimal::write(&mut out, value, digits);
        out
    };
    let Listing { symbol, digits, tick, lot } = listing;
    json!({
        "symbol": symbol,
        "pair": symbol,
        "contractType": "PERPETUAL",
        "status": "TRADING",
        "pricePrecision": digits.price,
        "quantityPrecision": digits.quantity,
        "filters": [
            { "filterType": "PRICE_FILTER", "tickSize": text(*tick, digits.price) },
            { "filterType": "LOT_SIZE", "stepSize": text(*lot, digits.quantity) },
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fault::Script;
    use crate::server::generator::{Generator, Settings};

    fn ask(targets: &[&str], script: &str, most: u32) -> Vec<Answer> {
        let source = Source::Generated(Box::new(Generator::new(Settings::default())));
        let armed = Armed::new(&script.parse::<Script>().unwrap());
        let now = Instant::now();
        let mut weights = Weights::new(now, most);
        let mut desk = Desk { source: &source, armed: &armed, weights: &mut weights, now };
        let head = |target: &&str| Head {
            method: "GET".into(),
            target: target.to_string(),
            ..Head::default()
        };
        targets.iter().map(|target| desk.answer(&head(target))).collect()
    }

    #[test]
    fn requests_are_answered_as_the_exchange_does() {
        for (target, status, words) in [
            ("/fapi/v1/ping", 200, "{}"),
            ("/fapi/v1/time", 200, "\"serverTime\":17672256"),
            ("/fapi/v1/exchangeInfo", 200, "\"tickSize\":\"0.10\""),
            ("/fapi/v1/depth?symbol=btcusdt&limit=5", 200, "\"lastUpdateId\":"),
            ("/fapi/v1/depth?symbol=BTCUSDT", 200, "\"bids\":[[\""),
            ("/fapi/v1/depth?symbol=BTCUSDT&limit=7", 400, "-4021"),
            ("/fapi/v1/depth?symbol=NOUSDT", 400, "-1121"),
            ("/fapi/v1/depth", 400, "-1102"),
            ("/fapi/v3/depth", 404, "-5000"),
        ] {
            let answer = ask(&[target], "", 2_400).remove(0);
            assert_eq!(answer.status, status, "{target}");
            assert!(answer.body.contains(words), "{target}: {}", answer.body);
        }
    }

    #[test]
    fn weight_is_counted_until_it_is_too_much() {
        let book = "/fapi/v1/depth?symbol=BTCUSDT&limit=1000";
        let answers = ask(&[book, "/fapi/v1/ping", book], "", 30);
        assert_eq!((answers[0].weight, answers[1].weight), (Some(20), Some(21)));
        assert_eq!((answers[2].status, answers[2].retry_after), (429, Some(61)));
    }

    #[test]
    fn a_script_refuses_and_changes_the_time_of_a_book() {
        let book = "/fapi/v1/depth?symbol=BTCUSDT&limit=5";
        let script = "snapshot stale; snapshot future 3 after 1 request; rest 418 retry-after 2s after 3 requests";
        let answers = ask(&[book; 4], script, 2_400);
        let id = |answer: &Answer| {
            serde_json::from_str::<Value>(&answer.body).unwrap()["lastUpdateId"].as_u64()
        };
        assert!(id(&answers[0]) < id(&answers[2]) && id(&answers[2]) < id(&answers[1]));
        assert_eq!((answers[3].status, answers[3].retry_after), (418, Some(2)));
    }
}
