//! What a client sees while nothing goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quietcore_feed::server::{Begin, Config, Cutting, Pace, Pieces, Source, Tape, Venue};
use serde_json::{Value, json};
use tungstenite::Message;
use tungstenite::protocol::frame::coding::CloseCode;

use super::client::*;

const STREAMS: &str = "/public/stream?streams=btcusdt@depth@0ms/btcusdt@bookTicker";

/// Reads on until `wanted` depth messages were applied after Binance's rules; then compares the top
/// after each with the last quote that is not newer. Says how many were compared.
fn follow(
    socket: &mut tungstenite::WebSocket<Tls>,
    mut book: Reference,
    wanted: usize,
) -> (Reference, usize) {
    // A quote may come before or after the depth message that has its update: compare at the end.
    let (mut quotes, mut tops) = (BTreeMap::new(), Vec::new());
    let mut bridged = false;
    while tops.len() < wanted {
        let message = json(&text(socket));
        let data = &message["data"];
        let id = |key: &str| data[key].as_u64().unwrap();
        match data["e"].as_str().unwrap() {
            "bookTicker" => drop(quotes.insert(id("u"), top_of_quote(data))),
            "depthUpdate" if id("u") < book.last => {}
            "depthUpdate" => {
                if bridged {
                    assert_eq!(id("pu"), book.last, "a gap");
                } else {
                    assert!(id("U") <= book.last, "the snapshot is older than the stream");
                    bridged = true;
                }
                book.apply(data);
                let top = book.top().unwrap();
                assert!(top[0].0 < top[1].0, "crossed");
                tops.push((book.last, top));
            }
            other => panic!("{other} was not asked for"),
        }
    }
    let newest = quotes.last_key_value().map_or(0, |last| *last.0);
    let mut compared = 0;
    for (update, top) in tops.iter().filter(|(update, _)| *update <= newest) {
        if let Some((_, quote)) = quotes.range(..=update).next_back() {
            assert_eq!(top, quote, "after update {update}");
            compared += 1;
        }
    }
    (book, compared)
}

fn snapshot(venue: &quietcore_feed::server::Running, limit: usize) -> Reference {
    let (status, _, body) = get(venue, &format!("/fapi/v1/depth?symbol=BTCUSDT&limit={limit}"));
    assert_eq!(status, 200, "{body}");
    Reference::of_snapshot(&json(&body))
}

#[test]
fn a_snapshot_bridges_with_the_stream_and_the_top_is_what_the_quotes_say() {
    let venue = start(as_read(""));
    let mut socket = open(&venue, STREAMS);
    // Some of the stream first: the market has moved when the snapshot is taken.
    let first = texts(&mut socket, 50);
    assert!(first.iter().all(|text| text.starts_with(r#"{"stream":"btcusdt@"#)));
    let book = snapshot(&venue, 1_000);
    assert!(book.bids.len() == 1_000 && book.asks.len() == 1_000);
    let (_, compared) = follow(&mut socket, book, 300);
    assert!(compared >= 290, "{compared}");
    let stats = venue.stop();
    assert_eq!((stats.open, stats.faults, stats.slow_readers), (0, 0, 0));
}

#[test]
fn however_bytes_are_cut_the_messages_are_the_same() {
    let messages = |cutting: Cutting, coalesce: usize, version| {
        let venue = start(Config { cutting, coalesce, ..as_read("") });
        let tls = try_tls(&venue, &[version]).unwrap();
        let url = format!("wss://fstream.binance.com{STREAMS}");
        let mut socket = tungstenite::client(url, tls).unwrap().0;
        let expected = texts(&mut socket, 120);
        venue.stop();
        expected
    };
    let whole = messages(Cutting::default(), 1, &rustls::version::TLS13);
    for (record, write, coalesce) in [
        (Pieces::Whole, Pieces::Of(1), 1),
        (Pieces::Of(1), Pieces::Whole, 1),
        (Pieces::Whole, Pieces::UpTo(700), 8),
        (Pieces::UpTo(300), Pieces::UpTo(90), 64),
    ] {
        let cutting = Cutting { record, write };
        assert_eq!(messages(cutting, coalesce, &rustls::version::TLS13), whole, "{cutting:?}");
    }
    let cutting = Cutting { record: Pieces::UpTo(300), write: Pieces::UpTo(90) };
    assert_eq!(messages(cutting, 4, &rustls::version::TLS12), whole);
}

#[test]
fn two_clients_see_the_same_market() {
    let venue = start(Config { begin: Begin::WithListeners(3), ..as_read("") });
    let mut one = open(&venue, STREAMS);
    let mut other = open(&venue, "/ws/btcusdt@depth@0ms/btcusdt@bookTicker");
    let mut trades = open(&venue, "/market/ws/btcusdt@aggTrade/ethusdt@aggTrade");
    let combined: Vec<Value> =
        texts(&mut one, 400).iter().map(|text| json(text)["data"].clone()).collect();
    let bare: Vec<Value> = texts(&mut other, 400).iter().map(|text| json(text)).collect();
    assert_eq!(combined, bare);
    let trades: Vec<Value> = texts(&mut trades, 5).iter().map(|text| json(text)).collect();
    assert!(trades.iter().all(|trade| trade["e"] == "aggTrade" && trade["nq"].is_string()));
}

#[test]
fn streams_are_subscribed_to_and_listed() {
    let venue = start(as_read(""));
    let mut socket = open(&venue, "/public/ws");
    say(&mut socket, r#"{"method":"SUBSCRIBE","params":["ethusdt@bookTicker"],"id":1}"#);
    assert_eq!(text(&mut socket), r#"{"result":null,"id":1}"#);
    let quotes = texts(&mut socket, 20);
    assert!(quotes.iter().all(|text| json(text)["s"] == "ETHUSDT"));
    // Events that are under way come before an answer.
    let answer = |socket: &mut _, id: u64| loop {
        let message = json(&text(socket));
        if message["id"] == id {
            return message;
        }
    };
    say(&mut socket, r#"{"method":"SUBSCRIBE","params":["btcusdt@aggTrade"],"id":2}"#);
    let refused = answer(&mut socket, 2);
    assert_eq!(refused["code"], 2);
    assert!(refused["msg"].as_str().unwrap().contains("/public"), "{refused}");
    say(&mut socket, r#"{"method":"LIST_SUBSCRIPTIONS","id":3}"#);
    assert_eq!(answer(&mut socket, 3)["result"], json!(["ethusdt@bookTicker"]));
    say(&mut socket, r#"{"method":"UNSUBSCRIBE","params":["ethusdt@bookTicker"],"id":4}"#);
    assert_eq!(answer(&mut socket, 4)["result"], Value::Null);
    say(&mut socket, r#"{"method":"LIST_SUBSCRIPTIONS","id":5}"#);
    assert_eq!(answer(&mut socket, 5)["result"], json!([]));
}

#[test]
fn a_stream_on_the_wrong_route_is_refused() {
    let venue = start(Config { has_legacy_routes: false, ..as_read("") });
    for (target, status) in [
        ("/market/ws/btcusdt@depth", 400),
        ("/public/stream?streams=btcusdt@aggTrade", 400),
        ("/ws/btcusdt@depth", 404),
        ("/private/ws", 404),
    ] {
        match *try_open(&venue, target).unwrap_err() {
            tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer)) => {
                assert_eq!(answer.status().as_u16(), status, "{target}");
            }
            other => panic!("{target}: {other:?}"),
        }
    }
}

#[test]
fn a_client_that_breaks_the_protocol_is_told() {
    use std::io::Write;
    // A frame without a mask; a text that is no UTF-8, masked with zeros.
    for (frame, code) in [
        (&b"\x81\x02hi"[..], CloseCode::Protocol),
        (&b"\x81\x82\0\0\0\0\xff\xfe"[..], CloseCode::Invalid),
    ] {
        let venue = start(as_read(""));
        let mut socket = open(&venue, "/public/ws");
        socket.get_mut().write_all(frame).unwrap();
        let Message::Close(Some(close)) = socket.read().unwrap() else { panic!("{code}") };
        assert_eq!(close.code, code);
    }
}

#[test]
fn a_client_that_says_too_much_is_closed() {
    let venue = start(as_read(""));
    let mut socket = open(&venue, "/public/ws");
    for id in 0..200 {
        let text = format!(r#"{{"method":"LIST_SUBSCRIPTIONS","id":{id}}}"#);
        if socket.send(Message::text(text)).is_err() {
            break;
        }
    }
    let close = loop {
        match socket.read().unwrap() {
            Message::Close(close) => break close.unwrap(),
            Message::Text(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((close.code, close.reason.as_str()), (CloseCode::Policy, "Too many requests"));
}

#[test]
fn a_client_that_does_not_read_is_closed_as_the_exchange_does() {
    let fast = Config {
        pace: Pace::Rate(5_000.0),
        begin: Begin::WithListeners(1),
        queue: 200,
        ..Config::default()
    };
    let venue = start(fast);
    let mut socket = open(&venue, STREAMS);
    while venue.stats().slow_readers == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // It reads on: what had been sent, then the close frame if that still went out.
    let mut received = 0_u64;
    loop {
        match socket.read() {
            Ok(Message::Text(_)) => received += 1,
            Ok(Message::Close(close)) => {
                assert_eq!(close.unwrap().code, CloseCode::Policy);
                break;
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    assert!(received > 0);
}

#[test]
fn pings_come_and_an_old_connection_is_closed() {
    let brief = Config {
        ping_every: Duration::from_millis(20),
        longest: Duration::from_millis(400),
        ..as_read("")
    };
    let venue = start(brief);
    let mut socket = open(&venue, "/public/ws");
    let mut pings = BTreeSet::new();
    let close = loop {
        match socket.read().unwrap() {
            Message::Ping(payload) => {
                pings.insert(payload.to_vec());
            }
            Message::Close(close) => break close.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert!(!pings.is_empty());
    assert_eq!(close.reason, "Connection is too old");
}

#[test]
fn a_client_that_answers_no_ping_is_closed() {
    let brief = Config {
        ping_every: Duration::from_millis(10),
        pong_within: Duration::from_millis(50),
        ..as_read("")
    };
    let venue = start(brief);
    let mut socket = open(&venue, "/public/ws");
    // Takes the bytes off the connection without looking at them: nothing answers.
    let mut bytes = Vec::new();
    let _ = std::io::Read::read_to_end(socket.get_mut(), &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("Pong timeout"), "{text}");
}

#[test]
fn messages_say_when_they_were_sent() {
    let venue = start(Config { has_send_time: true, ..as_read("") });
    for target in [STREAMS, "/public/ws/btcusdt@bookTicker"] {
        let mut socket = open(&venue, target);
        let sent: Vec<u64> = texts(&mut socket, 20)
            .iter()
            .map(|text| json(text)["sent"].as_u64().unwrap())
            .collect();
        assert!(sent[0] > 1_700_000_000_000_000_000);
    }
}

#[test]
fn the_rest_interface_answers_on_one_connection_again_and_again() {
    use std::io::{Read, Write};
    let venue = start(as_read(""));
    let mut tls = tls(&venue);
    for _ in 0..3 {
        write!(tls, "GET /fapi/v1/ping HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"{}") {
            let mut chunk = [0; 512];
            let count = tls.read(&mut chunk).unwrap();
            assert!(count > 0);
            answer.extend_from_slice(&chunk[..count]);
        }
    }
    let info = json(&get(&venue, "/fapi/v1/exchangeInfo").2);
    assert_eq!(info["symbols"][0]["symbol"], "BTCUSDT");
    let (status, head, _) = get(&venue, "/fapi/v1/depth?symbol=BTCUSDT&limit=100");
    assert!(status == 200 && head.contains("x-mbx-used-weight-1m: 9"), "{head}");
    let stats = venue.stop();
    assert_eq!((stats.requests, stats.connections, stats.open), (5, 3, 0));
}

#[test]
fn a_venue_ends_with_all_its_clients() {
    let venue = start(Config { pace: Pace::Rate(1.0), ..as_read("") });
    let mut sockets: Vec<_> = (0..4).map(|_| open(&venue, STREAMS)).collect();
    let stats = venue.stop();
    assert_eq!((stats.open, stats.upgrades), (0, 4));
    for socket in &mut sockets {
        let close = loop {
            match socket.read().unwrap() {
                Message::Close(close) => break close.unwrap(),
                _ => continue,
            }
        };
        assert_eq!(close.code, CloseCode::Away);
    }
}

/// A short recording made here: its snapshot comes after events that are newer than it, as it did
/// for whoever recorded it.
fn recording() -> Vec<(u64, Vec<u8>)> {
    let depth = |at: u64, first: u64, last: u64, previous: u64, bid: &str| {
        let data = format!(
            r#"{{"e":"depthUpdate","E":{at},"T":{at},"s":"BTCUSDT","U":{first},"u":{last},"pu":{previous},"b":[["100.0","{bid}"]],"a":[]}}"#
        );
        let text = format!(r#"{{"stream":"btcusdt@depth@0ms","data":{data}}}"#);
        (at * 1_000_000, text.into_bytes())
    };
    let snapshot = r#"{"lastUpdateId":15,"E":1,"T":1,"bids":[["100.0","1.5"],["99.5","2.0"]],"asks":[["100.5","1.0"]]}"#;
    let quote = r#"{"stream":"btcusdt@bookTicker","data":{"e":"bookTicker","u":40,"s":"BTCUSDT","b":"100.0","B":"4.0","a":"100.5","A":"1.0","T":5,"E":5}}"#;
    vec![
        depth(1, 1, 10, 0, "1.0"),
        depth(2, 11, 20, 10, "2.0"),
        (2_500_000, snapshot.as_bytes().to_vec()),
        (2_600_000, b"not a message".to_vec()),
        depth(3, 21, 30, 20, "3.0"),
        depth(4, 31, 40, 30, "4.0"),
        (5_000_000, quote.as_bytes().to_vec()),
    ]
}

#[test]
fn a_recording_is_played_and_its_book_is_served() {
    let tape = Tape::new(Box::new(recording().into_iter()));
    assert_eq!(tape.skipped(), 1);
    let venue = Venue::start(Source::Recorded(Box::new(tape)), as_read("")).unwrap();
    // Before the first event: the snapshot that the recording has.
    assert_eq!(snapshot(&venue, 5).last, 15);
    let mut socket = open(&venue, "/public/stream?streams=btcusdt@depth@100ms/btcusdt@bookTicker");
    let messages: Vec<Value> = texts(&mut socket, 5).iter().map(|text| json(text)).collect();
    assert!(messages[..4].iter().all(|message| message["stream"] == "btcusdt@depth@100ms"));
    assert_eq!(messages[4]["data"]["B"], "4.0");
    let book = snapshot(&venue, 5);
    assert_eq!((book.last, book.bids.len()), (40, 2));
    assert_eq!(book.top().unwrap(), top_of_quote(&messages[4]["data"]));
    let Message::Close(close) = socket.read().unwrap() else { panic!("the market is over") };
    assert_eq!(close.unwrap().code, CloseCode::Normal);
    assert!(venue.has_ended());
}

/// The recording of `QUIETCORE_RECORDING`, played; its own quotes are the judge.
#[test]
fn a_real_recording_bridges_and_agrees_with_its_quotes() {
    let Some(path) = std::env::var_os("QUIETCORE_RECORDING") else {
        println!("skipped: QUIETCORE_RECORDING names no recording");
        return;
    };
    let mut text = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()),
        &mut text,
    )
    .unwrap();
    let lines: Vec<(u64, Vec<u8>)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(at, json)| (at.parse().unwrap(), json.as_bytes().to_vec()))
        .collect();
    let tape = Tape::new(Box::new(lines.into_iter()));
    let venue = Venue::start(Source::Recorded(Box::new(tape)), as_read("")).unwrap();
    let mut socket = open(&venue, STREAMS);
    let (book, compared) = follow(&mut socket, snapshot(&venue, 1_000), 4_000);
    assert!(compared >= 3_980, "{compared}");
    let served = snapshot(&venue, 1_000);
    assert!(served.last >= book.last);
}
