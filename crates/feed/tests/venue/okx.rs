//! OKX's form: a snapshot, changes, and a checksum that judges the book.

use std::collections::BTreeMap;

use quietcore_feed::server::{Begin, Config};
use serde_json::Value;

use super::client::*;

const SUBSCRIBE: &str =
    r#"{"op":"subscribe","args":[{"channel":"books","instId":"BTC-USDT-SWAP"}]}"#;

/// Price to the texts of price and size.
type Side = BTreeMap<u64, (String, String)>;

fn apply(side: &mut Side, rows: &Value) {
    for row in rows.as_array().unwrap() {
        let word = |index: usize| row[index].as_str().unwrap().to_owned();
        assert_eq!(word(2), "0");
        if word(1).bytes().all(|digit| matches!(digit, b'0' | b'.')) {
            assert!(side.remove(&price(&row[0])).is_some(), "gone, but never shown");
        } else {
            side.insert(price(&row[0]), (word(0), word(1)));
        }
    }
}

fn checksum(bids: &Side, asks: &Side) -> i64 {
    let mut parts = Vec::new();
    for (bid, ask) in bids.values().rev().zip(asks.values()).take(25) {
        parts.extend([&bid.0, &bid.1, &ask.0, &ask.1].map(String::as_str));
    }
    i64::from(crc32fast::hash(parts.join(":").as_bytes()) as i32)
}

#[test]
fn every_checksum_is_right_and_numbers_chain() {
    let venue = start(Config { begin: Begin::WithListeners(2), ..as_read("") });
    // The market is under way when the second subscription comes.
    let mut other = open(&venue, "/public/ws/btcusdt@depth@0ms");
    let mut socket = open(&venue, "/ws/v5/public");
    say(&mut socket, "ping");
    assert_eq!(text(&mut socket), "pong");
    say(&mut socket, SUBSCRIBE);
    assert_eq!(json(&text(&mut socket))["event"], "subscribe");
    texts(&mut other, 1);
    let (mut bids, mut asks, mut last) = (Side::new(), Side::new(), -1);
    for number in 0..300 {
        let message = json(&text(&mut socket));
        assert_eq!(message["arg"]["instId"], "BTC-USDT-SWAP");
        assert_eq!(message["action"], if number == 0 { "snapshot" } else { "update" });
        let data = &message["data"][0];
        assert_eq!(data["prevSeqId"], last, "message {number}");
        last = data["seqId"].as_i64().unwrap();
        apply(&mut bids, &data["bids"]);
        apply(&mut asks, &data["asks"]);
        assert_eq!((bids.len(), asks.len()), (400, 400));
        assert_eq!(data["checksum"], checksum(&bids, &asks), "message {number}");
    }
    drop(other);
}

#[test]
fn a_subscription_in_the_middle_starts_with_what_was_shown_last() {
    let venue = start(as_read(""));
    let mut one = open(&venue, "/ws/v5/public");
    say(&mut one, SUBSCRIBE);
    texts(&mut one, 20);
    for _ in 0..5 {
        let mut late = open(&venue, "/ws/v5/public");
        say(&mut late, SUBSCRIBE);
        let messages: Vec<Value> = texts(&mut late, 4).iter().map(|text| json(text)).collect();
        for at in 2..4 {
            let data = |at: usize| &messages[at]["data"][0];
            assert_eq!(data(at)["prevSeqId"], data(at - 1)["seqId"]);
        }
        texts(&mut one, 20);
    }
}

#[test]
fn gaps_are_injected_here_too_and_wrong_requests_are_refused() {
    let venue = start(as_read("after 3 events gap on @books"));
    let mut socket = open(&venue, "/ws/v5/public");
    say(&mut socket, r#"{"op":"subscribe","args":[{"channel":"books","instId":"NO-USDT"}]}"#);
    assert_eq!(json(&text(&mut socket))["code"], "60018");
    say(&mut socket, SUBSCRIBE);
    let messages: Vec<Value> = texts(&mut socket, 9).iter().map(|text| json(text)).collect();
    let chain =
        |at: usize| messages[at]["data"][0]["prevSeqId"] == messages[at - 1]["data"][0]["seqId"];
    let broken: Vec<usize> = (2..9).filter(|at| !chain(*at)).collect();
    assert_eq!(broken, [5], "the answer, the snapshot, three updates, a gap");
}

#[test]
fn a_checksum_can_be_wrong() {
    let checksums = |faults: &str| {
        let venue = start(Config { begin: Begin::WithListeners(1), ..as_read(faults) });
        let mut socket = open(&venue, "/ws/v5/public");
        say(&mut socket, SUBSCRIBE);
        let messages = texts(&mut socket, 8);
        let of = |text: &String| json(text)["data"][0]["checksum"].as_i64().unwrap();
        messages[1..].iter().map(of).collect::<Vec<_>>()
    };
    let (right, seen) = (checksums(""), checksums("after 2 events wrong-checksum 2"));
    let wrong: Vec<usize> = (0..right.len()).filter(|at| seen[*at] != right[*at]).collect();
    assert_eq!(wrong, [3, 4], "the snapshot is no event");
}
