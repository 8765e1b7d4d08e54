//! OKX's messages, in every form they come in, read as `serde_json` reads them.
#![forbid(unsafe_code)]

mod oracle;

use oracle::{Random, Style, fixed, levels as rows, number, quoted, taker};
use proptest::prelude::*;
use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Level, Levels, Message, Says, Side};
use quietcore_feed::scan::{Fault, ScanError, text};
use quietcore_feed::venues::Venue;
use quietcore_feed::venues::okx::Okx;
use serde_json::Value;

const MESSAGES: &[&str] = &[
    r#"{"arg":{"channel":"books","instId":"BTC-USDT-SWAP"},"action":"snapshot","data":[{"asks":[["61800.3","415","0","13"],["61800.4","0.01","0","2"]],"bids":[["61800.2","256","0","12"]],"ts":"1723161256299","checksum":-855196043,"seqId":123456,"prevSeqId":-1}]}"#,
    r#"{"arg":{"channel":"books","instId":"BTC-USDT-SWAP"},"action":"update","data":[{"asks":[],"bids":[["61800.2","0","0","0"]],"ts":"1723161256399","checksum":1285595583,"seqId":1724294007352168320,"prevSeqId":123456}]}"#,
    r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"action":"update","data":[{"asks":[],"bids":[],"ts":"1785048483771","checksum":0,"seqId":7,"prevSeqId":7}]}"#,
    r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"action":"update","data":[{"asks":[["1","2"]],"bids":[],"ts":"1785048483771","seqId":3,"prevSeqId":7,"checksum":null}]}"#,
    r#"{"arg":{"channel":"bbo-tbt","instId":"BTC-USDT"},"data":[{"asks":[["61800.3","415","0","13"]],"bids":[["61800.2","256","0","12"]],"ts":"1723161256299","seqId":363996337}]}"#,
    r#"{"arg":{"channel":"bbo-tbt","instId":"BTC-USDT"},"data":[{"asks":[],"bids":[["61800.2","256","0","12"]],"ts":"1723161256299","seqId":363996338}]}"#,
    r#"{"arg":{"channel":"trades","instId":"BTC-USDT"},"data":[{"instId":"BTC-USDT","tradeId":"130639474","px":"42219.9","sz":"0.12060306","side":"buy","ts":"1630048897897","count":"3","source":"0","seqId":1234}]}"#,
    r#"{"arg":{"channel":"trades-all","instId":"BTC-USDT"},"data":[{"instId":"BTC-USDT","tradeId":"130639475","px":"42219.9","sz":"0.1","side":"sell","ts":"1630048897898"}]}"#,
    r#"{"id":"2","event":"subscribe","arg":{"channel":"books","instId":"BTC-USDT"},"connId":"a4d3ae55"}"#,
    r#"{"event":"subscribe","arg":{"channel":"books","instId":"BTC-USDT"},"connId":"a4d3ae55"}"#,
    r#"{"event":"error","code":"60018","msg":"Wrong URL or channel:books,instId:BTC-USD doesn't exist.","connId":"a4d3ae55"}"#,
    r#"{"event":"notice","code":"64008","msg":"The connection will soon be closed for a service upgrade.","connId":"a4d3ae55"}"#,
    r#"{"arg":{"channel":"tickers","instId":"BTC-USDT"},"data":[{"instType":"SPOT","instId":"BTC-USDT","last":"9999.99","askPx":"9999.99","askSz":"11","bidPx":"8888.88","bidSz":"5","ts":"1597026383085"}]}"#,
    r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"action":"update","data":[]}"#,
    r#"{}"#,
];

fn scan<'a>(text: &'a [u8], levels: &mut Levels) -> Result<Message<'a>, ScanError> {
    Okx.scan(text, levels)
}

fn row(value: &Value) -> Level {
    rows(value).first().copied().unwrap_or_default()
}

/// What was read of a message is what serde_json's tree of it says.
fn check(message: &Message<'_>, levels: &Levels, value: &Value) {
    let symbol = value["arg"]["instId"].as_str().unwrap_or_default();
    assert!(message.is_of(symbol.as_bytes()), "{message:?} is of {symbol:?}");
    let channel = value["arg"]["channel"].as_str();
    let last = value["data"].as_array().and_then(|data| data.last());
    let event = value["event"].as_str();
    match (message.says, last) {
        (Says::Depth(depth), Some(data)) => {
            assert_eq!((channel, event), (Some("books"), None));
            assert_eq!(value["action"], if depth.is_snapshot { "snapshot" } else { "update" });
            assert_eq!([depth.first, depth.last], [number(&data["seqId"]); 2]);
            let previous = data["prevSeqId"].as_u64().filter(|_| !depth.is_snapshot);
            assert_eq!(depth.previous, previous);
            let checksum = data["checksum"].as_i64().filter(|checksum| *checksum != 0);
            assert_eq!(depth.checksum.map(i64::from), checksum);
            assert_eq!(depth.time_ms, data.get("ts").map_or(0, quoted));
            assert_eq!(*levels, Levels { bids: rows(&data["bids"]), asks: rows(&data["asks"]) });
        }
        (Says::Quote(quote), Some(data)) => {
            assert_eq!((channel, event), (Some("bbo-tbt"), None));
            assert_eq!(quote.update, number(&data["seqId"]));
            assert_eq!([quote.bid, quote.ask], [row(&data["bids"]), row(&data["asks"])]);
            assert_eq!(quote.time_ms, data.get("ts").map_or(0, quoted));
        }
        (Says::Trade(trade), Some(data)) => {
            assert!(matches!(channel, Some("trades" | "trades-all")) && event.is_none());
            assert_eq!([trade.id, trade.time_ms], [quoted(&data["tradeId"]), quoted(&data["ts"])]);
            assert_eq!([trade.price, trade.quantity], [fixed(&data["px"]), fixed(&data["sz"])]);
            assert_eq!(trade.taker, taker(data["side"] == "sell"));
        }
        (Says::Done(id), _) => {
            assert!(matches!(event, Some("subscribe" | "unsubscribe")));
            let said = &value["id"];
            let said = said.as_u64().or(said.as_str().and_then(|said| said.parse().ok()));
            assert_eq!(id, said.unwrap_or(0));
        }
        (Says::Refused(words), _) => {
            assert_eq!(event, Some("error"));
            assert!(text::is(words, value["msg"].as_str().unwrap_or_default().as_bytes()));
        }
        (Says::Other, last) => {
            let ours = ["books", "bbo-tbt", "trades", "trades-all"];
            let is_ours = channel.is_some_and(|channel| ours.contains(&channel));
            assert!(!is_ours || last.is_none() || event.is_some(), "{value}");
        }
        (says, None) => panic!("{says:?} of {value}"),
        (says, _) => panic!("{says:?}"),
    }
}

#[test]
fn every_message_says_what_serde_json_reads_of_it() {
    let mut levels = Levels::default();
    let mut said = Vec::new();
    for message in MESSAGES {
        let value: Value = serde_json::from_str(message).unwrap();
        let scanned = scan(message.as_bytes(), &mut levels).unwrap();
        check(&scanned, &levels, &value);
        said.push(match scanned.says {
            Says::Depth(depth) if depth.is_snapshot => 'S',
            Says::Depth(_) => 'D',
            Says::Quote(_) => 'Q',
            Says::Trade(_) => 'T',
            Says::Done(_) => 'd',
            Says::Refused(_) => 'r',
            Says::Mark(_) => 'M',
            Says::Other => 'o',
        });
    }
    assert_eq!(String::from_iter(said), "SDDDQQTTddroooo");
    assert_eq!(scan(b"pong", &mut levels).unwrap().says, Says::Other);
}

#[test]
fn the_values_are_the_venues() {
    let mut levels = Levels::default();
    let mut depth = |index: usize| match scan(MESSAGES[index].as_bytes(), &mut levels).unwrap().says
    {
        Says::Depth(depth) => (depth.last, depth.previous, depth.checksum),
        says => panic!("{says:?}"),
    };
    assert_eq!(depth(0), (123_456, None, Some(-855_196_043)));
    assert_eq!(depth(1), (1_724_294_007_352_168_320, Some(123_456), Some(1_285_595_583)));
    // A heartbeat, a sequence that begins anew, and no checksum since June 2026.
    assert_eq!(depth(2), (7, Some(7), None));
    assert_eq!(depth(3), (3, Some(7), None));
    scan(MESSAGES[0].as_bytes(), &mut levels).unwrap();
    assert_eq!(levels.asks[1].quantity, Fixed(1_000_000));
    let Says::Quote(quote) = scan(MESSAGES[5].as_bytes(), &mut levels).unwrap().says else {
        panic!()
    };
    assert_eq!((quote.ask, levels.bids.len()), (Level::default(), 0));
    let Says::Trade(trade) = scan(MESSAGES[6].as_bytes(), &mut levels).unwrap().says else {
        panic!()
    };
    assert_eq!((trade.taker, trade.quantity), (Side::Bid, Fixed(12_060_306)));
}

#[test]
fn what_is_wrong_is_refused() {
    let mut levels = Levels::default();
    for (index, from, to, fault) in [
        (
            0,
            "\"seqId\":123456",
            "\"seqId\":-5",
            Fault::Expected("a whole number that is not negative"),
        ),
        (0, "-1}", "-2}", Fault::Expected("a sequence number or -1")),
        (0, "-855196043", "4294967296", Fault::TooLarge),
        (
            0,
            "\"ts\":\"1723161256299\"",
            "\"ts\":\"-1\"",
            Fault::Expected("a whole number in quotes"),
        ),
        (0, "snapshot", "partial", Fault::Expected("the action snapshot or update")),
        (0, "\"action\":\"snapshot\",", "", Fault::Missing("action")),
        (0, "\"asks\"", "\"offers\"", Fault::Missing("asks")),
        (0, "]}", "],\"arg\":{\"channel\":\"trades\"}}", Fault::Contradiction),
        (1, "\"prevSeqId\":123456", "\"prevSeqId\":-1", Fault::Missing("prevSeqId")),
        (1, "}]}", "},{}]}", Fault::Expected("one book in a message")),
        (1, "}]}", "}]}x", Fault::Trailing),
        (6, "\"buy\"", "\"both\"", Fault::Expected("buy or sell")),
    ] {
        let text = MESSAGES[index].replace(from, to);
        assert_ne!(text, MESSAGES[index]);
        let error = scan(text.as_bytes(), &mut levels).map(drop).unwrap_err();
        assert_eq!(error.fault, fault, "{text}");
    }
    for text in ["ping", "pon", "pong ", "\"pong", ""] {
        assert!(scan(text.as_bytes(), &mut levels).is_err(), "{text}");
    }
}

#[test]
fn several_trades_in_a_message_give_the_last() {
    let text = MESSAGES[6]
        .replace("}]}", r#"},{"tradeId":"9","px":"1","sz":"2","side":"sell","ts":"3"}]}"#);
    let mut levels = Levels::default();
    let message = scan(text.as_bytes(), &mut levels).unwrap();
    check(&message, &levels, &serde_json::from_str(&text).unwrap());
}

fn style() -> impl Strategy<Value = Style> {
    any::<[bool; 4]>().prop_map(|[shuffled, spaced, escaped, more]| Style {
        shuffled,
        spaced,
        escaped,
        more,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn a_message_written_otherwise_says_the_same(index in 0..MESSAGES.len(), style in style(), seed in 1..u64::MAX) {
        let value: Value = serde_json::from_str(MESSAGES[index]).unwrap();
        let written = oracle::rewrite(&value, style, &mut Random(seed));
        let [mut before, mut after] = [Levels::default(), Levels::default()];
        let expected = scan(MESSAGES[index].as_bytes(), &mut before).unwrap();
        let message = scan(written.as_bytes(), &mut after);
        let message = message.map_err(|error| TestCaseError::fail(format!("{error}: {written}")))?;
        match (message.says, expected.says) {
            (Says::Refused(words), Says::Refused(said)) => prop_assert!(text::is(words, said), "{}", written),
            (says, expected) => prop_assert_eq!(says, expected, "{}", written),
        }
        prop_assert!(message.is_of(expected.symbol), "{}", written);
        prop_assert_eq!(after, before);
    }

    #[test]
    fn a_damaged_message_is_refused_or_says_what_it_says(index in 0..MESSAGES.len(), seed in 1..u64::MAX) {
        let injured = oracle::injure(MESSAGES[index].as_bytes(), &mut Random(seed));
        let mut levels = Levels::default();
        let Ok(message) = scan(&injured, &mut levels) else { return Ok(()) };
        match serde_json::from_slice::<Value>(&injured) {
            Ok(value) => check(&message, &levels, &value),
            Err(error) => prop_assert!(oracle::is_own_limit(&error), "{}: {}", error, String::from_utf8_lossy(&injured)),
        }
    }
}
