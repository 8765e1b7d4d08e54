//! Every fault, as a plain client sees it.

use std::io::Read;
use std::time::{Duration, Instant};

use quietcore_feed::server::{Config, Cutting, Pace, Pieces, Running};
use serde_json::Value;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

use super::client::*;

const DEPTH: &str = "/public/ws/btcusdt@depth@0ms";

fn with(faults: &str) -> (Running, WebSocket<Tls>) {
    let venue = start(as_read(faults));
    let socket = open(&venue, DEPTH);
    (venue, socket)
}

/// The first depth messages of the market.
fn market(count: usize) -> Vec<String> {
    let (_venue, mut socket) = with("");
    texts(&mut socket, count)
}

#[test]
fn events_are_left_out_doubled_and_exchanged() {
    let right = market(40);
    for (faults, places) in [
        ("after 10 events gap 3", [(8, 8), (9, 9), (10, 13), (11, 14)]),
        ("after 10 events duplicate", [(9, 9), (10, 10), (11, 10), (12, 11)]),
        ("after 10 events reorder 2", [(10, 11), (11, 12), (12, 10), (13, 13)]),
        ("every 10 events gap", [(9, 9), (10, 11), (19, 21), (20, 22)]),
        ("after 10 events gap on ethusdt", [(9, 9), (10, 10), (11, 11), (12, 12)]),
    ] {
        let (venue, mut socket) = with(faults);
        let seen = texts(&mut socket, 30);
        for (place, original) in places {
            assert!(seen[place] == right[original], "{faults}: place {place}");
        }
        assert_eq!(venue.stats().faults > 0, !faults.contains("ethusdt"), "{faults}");
    }
}

#[test]
fn a_gap_is_one_that_numbers_show() {
    let (_venue, mut socket) = with("after 5 events gap 2 on btcusdt@depth");
    let chain: Vec<(Value, Value)> = texts(&mut socket, 10)
        .iter()
        .map(|text| json(text))
        .map(|depth| (depth["pu"].clone(), depth["u"].clone()))
        .collect();
    let gaps: Vec<usize> = (1..10).filter(|at| chain[*at].0 != chain[at - 1].1).collect();
    assert_eq!(gaps, [5]);
}

#[test]
fn a_book_can_be_crossed() {
    let right = market(8);
    let (_venue, mut socket) = with("after 3 events crossed 2 on @depth");
    let seen = texts(&mut socket, 8);
    for at in 0..8 {
        let (seen, right) = (json(&seen[at]), json(&right[at]));
        let is_crossed = seen["a"][0] == serde_json::json!(["1", "1"]);
        assert_eq!(is_crossed, (3..5).contains(&at), "{at}");
        assert!(is_crossed || seen == right);
    }
}

#[test]
fn fragments_with_a_ping_between_are_the_same_messages() {
    let right = market(12);
    let (_venue, mut socket) = with("after 5 events fragment 5");
    let (mut seen, mut pings) = (Vec::new(), 0);
    while seen.len() < 12 {
        match socket.read().unwrap() {
            Message::Text(text) => seen.push(text.to_string()),
            Message::Ping(payload) => {
                assert_eq!(payload.as_ref(), b"between");
                pings += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((seen, pings), (right, 5));
}

#[test]
fn a_connection_ends_as_the_script_says() {
    for (faults, close) in [
        ("after 5 events close 1008 Too many requests", Some((1008, "Too many requests"))),
        ("after 5 events close 1001", Some((1001, ""))),
        ("after 5 events close 4321 what", Some((4321, "what"))),
        ("after 5 events close 1006", None),
        ("after 5 events drop", None),
        ("after 5 events half-close", None),
    ] {
        let (venue, mut socket) = with(faults);
        texts(&mut socket, 5);
        match socket.read() {
            Ok(Message::Close(Some(frame))) => {
                let seen = Some((u16::from(frame.code), frame.reason.as_str()));
                assert_eq!(seen, close, "{faults}");
            }
            Ok(other) => panic!("{faults}: {other:?}"),
            // No close frame, no goodbye of TLS: the end of the connection, or its reset.
            Err(Error::Io(_) | Error::Protocol(_)) => assert_eq!(close, None, "{faults}"),
            Err(other) => panic!("{faults}: {other:?}"),
        }
        if faults.ends_with("half-close") {
            assert_eq!(venue.stats().open, 1, "it still listens");
        }
    }
}

#[test]
fn a_fault_with_a_count_strikes_once_and_the_next_connection_is_well() {
    let (venue, mut socket) = with("after 5 events drop");
    texts(&mut socket, 5);
    assert!(socket.read().is_err());
    texts(&mut open(&venue, DEPTH), 50);
    assert_eq!(venue.stats().faults, 1);
}

#[test]
fn pings_flood_and_their_answers_are_no_offence() {
    let (_venue, mut socket) = with("after 5 events ping-flood 500");
    let mut pings = 0;
    let mut seen = 0;
    while seen < 20 {
        match socket.read().unwrap() {
            Message::Text(_) => seen += 1,
            Message::Ping(payload) => {
                assert_eq!(payload, format!("flood {pings}").into_bytes());
                pings += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pings, 500);
}

#[test]
fn messages_that_are_none() {
    for (faults, wanted) in [
        ("after 5 events garbage", r#"{"e":"depthUpdate","E":17,"s":"#.to_owned()),
        ("after 5 events oversize 3_000_000", format!(r#"{{"e":"{}"}}"#, "x".repeat(2_999_992))),
    ] {
        let (_venue, mut socket) = with(faults);
        let seen = texts(&mut socket, 12);
        assert!(seen[5] == wanted, "{faults}");
        let right = market(11);
        assert!(seen[..5] == right[..5] && seen[6..] == right[5..], "{faults}");
    }
    for faults in ["after 5 events bad-text", "after 5 events masked"] {
        let (_venue, mut socket) = with(faults);
        texts(&mut socket, 5);
        let error = socket.read().unwrap_err();
        assert!(matches!(error, Error::Utf8(_) | Error::Protocol(_)), "{faults}: {error:?}");
    }
}

#[test]
fn a_record_with_a_wrong_bit_is_refused_by_tls() {
    let (_venue, mut socket) = with("after 5 events corrupt");
    // The library drops what came before the bad record in the same read.
    let error = loop {
        match socket.read() {
            Ok(_) => {}
            Err(error) => break format!("{error:?}"),
        }
    };
    assert!(error.contains("DecryptError"), "{error}");
}

#[test]
fn new_keys_and_a_trickle_change_nothing_that_is_said() {
    let right = market(30);
    for faults in [
        "after 5 events key-update; after 10 events key-update",
        "after 5 events slow 400_000",
        "after 5 events silence 30ms",
    ] {
        let (venue, mut socket) = with(faults);
        assert!(texts(&mut socket, 30) == right, "{faults}");
        assert!(venue.stats().faults > 0);
    }
}

#[test]
fn a_trickle_is_no_faster_than_it_says() {
    let start = Instant::now();
    let (_venue, mut socket) = with("after 1 event slow 20_000");
    text(&mut socket);
    let (mut received, mut chunk) = (0, [0; 1 << 12]);
    while received < 6_000 {
        received += socket.get_mut().sock.read(&mut chunk).unwrap();
    }
    // 200 bytes each 10 ms; a busy machine can only make it slower.
    assert!(start.elapsed() >= Duration::from_millis(290));
}

#[test]
fn faults_of_time_strike_every_connection() {
    let config = Config { pace: Pace::Rate(1.0), ..as_read("at 50ms close 1012 restart") };
    let venue = start(config);
    let mut sockets = [open(&venue, "/public/ws"), open(&venue, "/market/ws")];
    let mut listener = open(&venue, "/market/ws/btcusdt@markPrice");
    for socket in sockets.iter_mut().chain([&mut listener]) {
        let close = loop {
            match socket.read().unwrap() {
                Message::Close(close) => break close.unwrap(),
                _ => continue,
            }
        };
        assert_eq!(close.code, CloseCode::Restart);
    }
}

#[test]
fn requests_and_upgrades_are_refused() {
    let faults = "rest 429 retry-after 2s; rest 418 retry-after 60s after 1 request; upgrade 503";
    let venue = start(as_read(faults));
    let target = "/fapi/v1/depth?symbol=BTCUSDT&limit=5";
    for (wanted, wait) in [(429, "retry-after: 2\r\n"), (418, "retry-after: 60\r\n"), (200, "")] {
        let (status, head, body) = get(&venue, target);
        assert_eq!(status, wanted, "{body}");
        assert!(format!("{head}\r\n").contains(wait), "{head}");
    }
    match *try_open(&venue, DEPTH).unwrap_err() {
        tungstenite::HandshakeError::Failure(Error::Http(answer)) => {
            assert_eq!(answer.status().as_u16(), 503);
        }
        other => panic!("{other:?}"),
    }
    texts(&mut open(&venue, DEPTH), 3);
}

#[test]
fn snapshots_come_from_the_past_and_from_the_future() {
    // Nobody listens yet: the market stands still.
    let venue = start(as_read("snapshot stale; snapshot future 5 after 1 request"));
    let ask = || {
        let (status, _, body) = get(&venue, "/fapi/v1/depth?symbol=BTCUSDT&limit=1000");
        assert_eq!(status, 200);
        json(&body)["lastUpdateId"].as_u64().unwrap()
    };
    let (stale, future, true_one) = (ask(), ask(), ask());
    let depths: Vec<Value> =
        texts(&mut open(&venue, DEPTH), 10).iter().map(|text| json(text)).collect();
    assert!(stale < depths[0]["pu"].as_u64().unwrap(), "too old for the first message");
    assert_eq!(true_one, depths[0]["pu"].as_u64().unwrap());
    let is_reached = depths.iter().position(|depth| depth["u"].as_u64().unwrap() >= future);
    assert_eq!(is_reached, Some(4), "new until the fifth message");
}

#[test]
fn bad_certificates_are_bad_in_their_own_way() {
    for (faults, words) in [
        ("certificate expired", "Expired"),
        ("certificate wrong-name", "NotValidForName"),
        ("certificate unknown-issuer", "UnknownIssuer"),
    ] {
        let venue = start(as_read(faults));
        let error = try_tls(&venue, rustls::ALL_VERSIONS).unwrap_err();
        let error = format!("{error:?}");
        assert!(error.contains(words), "{faults}: {error}");
        let stats = venue.stop();
        assert_eq!((stats.connections, stats.open, stats.upgrades), (1, 0, 0));
    }
}

#[test]
fn faults_hold_however_bytes_are_cut() {
    let right = market(30);
    let cutting = Cutting { record: Pieces::UpTo(500), write: Pieces::UpTo(200) };
    let venue = start(Config { cutting, coalesce: 16, ..as_read("after 7 events gap 2") });
    let seen = texts(&mut open(&venue, DEPTH), 20);
    assert!(seen[..7] == right[..7] && seen[7..] == right[9..22]);
}
