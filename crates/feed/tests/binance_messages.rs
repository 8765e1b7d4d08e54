//! Binance's messages, in every form they come in, read as `serde_json` reads them.
#![forbid(unsafe_code)]

mod oracle;

use std::io::{BufRead, BufReader};

use oracle::{Random, Style, fixed, levels as rows, number, taker};
use proptest::prelude::*;
use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Depth, Level, Levels, Message, Says, Side, Trade};
use quietcore_feed::scan::{Fault, ScanError, text};
use quietcore_feed::venues::Venue;
use quietcore_feed::venues::binance_usdm::BinanceUsdm;
use serde_json::Value;

/// One of every kind: of 2024, of 2026 with its new keys, recorded and answered.
const MESSAGES: &[&str] = &[
    r#"{"stream":"btcusdt@depth@0ms","data":{"e":"depthUpdate","E":1723161256299,"T":1723161256298,"s":"BTCUSDT","U":5123107832006,"u":5123107837557,"pu":5123107831937,"b":[["58710.20","0.014"],["61652.80","0.195"]],"a":[["61800.30","3.330"],["61804.60","0.000"],["100000.10","20.004"]]}}"#,
    r#"{"e":"depthUpdate","E":1770000000001,"T":1770000000000,"s":"BTCUSDT","ps":"BTCUSDT","st":1,"U":501,"u":504,"pu":499,"b":[["0.0024","10"]],"a":[]}"#,
    r#"{"stream":"btcusdt@depth","data":{"e":"depthUpdate","E":1,"T":2,"s":"BTCUSDT","U":3,"u":4,"pu":2,"b":[],"a":[],"ps":"BTCUSDT","st":1}}"#,
    r#"{"stream":"btcusdt@bookTicker","data":{"e":"bookTicker","u":5123107837600,"s":"BTCUSDT","b":"61800.20","B":"2.909","a":"61800.30","A":"3.330","T":1723161256300,"E":1723161256301}}"#,
    r#"{"stream":"btcusdt@bookTicker","data":{"e":"bookTicker","u":10923712345678,"s":"BTCUSDT","ps":"BTCUSDT","b":"64336.00","B":"73.3346","a":"64346.70","A":"589.8026","T":1785048483771,"E":1785048483771,"st":1}}"#,
    r#"{"stream":"btcusdt@aggTrade","data":{"e":"aggTrade","E":1723161256299,"a":2281946142,"s":"BTCUSDT","p":"61800.20","q":"0.005","f":5264312801,"l":5264312803,"T":1723161256297,"m":true}}"#,
    r#"{"e":"aggTrade","E":1785048483800,"a":2281946143,"s":"BTCUSDT","p":"61800.30","q":"0.005","nq":"0.005","f":5264312804,"l":5264312804,"T":1785048483799,"m":false,"st":1}"#,
    r#"{"stream":"btcusdt@trade","data":{"e":"trade","E":1723161256299,"T":1723161256297,"s":"BTCUSDT","t":5264312803,"p":"61800.20","q":"0.002","X":"MARKET","m":true}}"#,
    r#"{"stream":"btcusdt@markPrice@1s","data":{"e":"markPriceUpdate","E":1723161257000,"s":"BTCUSDT","p":"61799.90000000","ap":"61799.10000000","P":"61750.00000000","i":"61820.51234567","r":"-0.00010000","T":1723190400000}}"#,
    r#"{"e":"markPriceUpdate","E":1723161257000,"s":"BTCUSDT_260925","p":"61799.90","i":"61820.51","P":"0","r":"","T":0}"#,
    r#"{"lastUpdateId":5123107852948,"E":1723161256501,"T":1723161256493,"bids":[["61800.20","2.909"],["61800.10","0.696"]],"asks":[["61800.30","1.5"]]}"#,
    r#"{"stream":"btcusdt@snapshot","data":{"lastUpdateId":5123107852948,"E":1,"T":2,"bids":[],"asks":[["61800.30","1.5"]]}}"#,
    r#"{"result":null,"id":17}"#,
    r#"{"code":2,"msg":"Invalid request: unknown \"variant\"","id":3}"#,
    r#"{"error":{"code":-1130,"msg":"Invalid parameter"},"id":4}"#,
    r#"{"code":-1121,"msg":"Invalid symbol."}"#,
    r#"{"stream":"btcusdt@kline_1m","data":{"e":"kline","E":1,"s":"BTCUSDT","k":{"t":1,"b":[1,2],"o":"1"}}}"#,
    r#"{"e":"forceOrder","E":1,"o":{"s":"BTCUSDT","S":"SELL"}}"#,
    r#"{"stream":"!ticker@arr","data":[{"e":"24hrTicker","s":"BTCUSDT"}]}"#,
    r#"{"stream":"btcusdt@depth5@100ms","data":{"e":"depthUpdate","E":1,"T":2,"s":"BTCUSDT","U":3,"u":4,"pu":2,"b":[["1","2"]],"a":[]}}"#,
    r#"{"stream":"btcusdt@rpiDepth@500ms","data":{"e":"depthUpdate","E":1,"T":2,"s":"BTCUSDT","U":3,"u":4,"pu":2,"b":[["1","2"]],"a":[]}}"#,
    r#"{}"#,
    r#"[]"#,
];

fn scan<'a>(text: &'a [u8], levels: &mut Levels) -> Result<Message<'a>, ScanError> {
    BinanceUsdm.scan(text, levels)
}

/// What was read of a message is what serde_json's tree of it says. Where the tree cannot be read
/// so (the message should have been refused), this panics.
fn check(message: &Message<'_>, levels: &Levels, value: &Value) {
    // Which of the two keys comes first.
    let mut keys = value.as_object().into_iter().flat_map(|map| map.iter());
    let decides =
        |(key, value): &(&String, &Value)| *key == "stream" || *key == "e" && value.is_string();
    let is_wrapped = keys.find(decides).is_some_and(|(key, _)| key == "stream");
    let stream = value["stream"].as_str().filter(|_| is_wrapped);
    let data = if is_wrapped { &value["data"] } else { value };
    if let Says::Depth(_) | Says::Quote(_) | Says::Trade(_) | Says::Mark(_) = message.says {
        let of_stream = stream.and_then(|stream| stream.split('@').next()).unwrap_or_default();
        let symbol = data.get("s").map_or(of_stream, |symbol| symbol.as_str().expect("a string"));
        assert!(message.is_of(symbol.as_bytes()), "{message:?} is of {symbol:?}");
    }
    let event = data["e"].as_str();
    match message.says {
        Says::Depth(depth) if depth.is_snapshot => {
            assert_eq!((event, depth.previous, depth.checksum), (None, None, None));
            assert_eq!([depth.first, depth.last], [number(&data["lastUpdateId"]); 2]);
            assert_eq!(*levels, Levels { bids: rows(&data["bids"]), asks: rows(&data["asks"]) });
        }
        Says::Depth(depth) => {
            let time_ms = data["T"].as_u64().unwrap_or(0);
            let [first, last, previous] = ["U", "u", "pu"].map(|key| number(&data[key]));
            let previous = Some(previous);
            let expected =
                Depth { is_snapshot: false, first, last, previous, checksum: None, time_ms };
            assert_eq!((event, depth), (Some("depthUpdate"), expected));
            assert_eq!(*levels, Levels { bids: rows(&data["b"]), asks: rows(&data["a"]) });
        }
        Says::Quote(quote) => {
            assert_eq!((event, quote.update), (Some("bookTicker"), number(&data["u"])));
            let level = |price, quantity| Level {
                price: fixed(&data[price]),
                quantity: fixed(&data[quantity]),
            };
            assert_eq!([quote.bid, quote.ask], [level("b", "B"), level("a", "A")]);
            assert_eq!(quote.time_ms, data["T"].as_u64().unwrap_or(0));
        }
        Says::Trade(trade) => {
            let id = if event == Some("trade") { "t" } else { "a" };
            assert!(matches!(event, Some("trade" | "aggTrade")));
            let expected = Trade {
                id: number(&data[id]),
                price: fixed(&data["p"]),
                quantity: fixed(&data["q"]),
                taker: taker(data["m"].as_bool().expect("a boolean")),
                time_ms: number(&data["T"]),
            };
            assert_eq!(trade, expected);
        }
        Says::Mark(mark) => {
            let or_nothing = |key: &str| match data.get(key) {
                Some(value) if value != "" => fixed(value),
                _ => Fixed::ZERO,
            };
            assert_eq!((event, mark.price), (Some("markPriceUpdate"), fixed(&data["p"])));
            assert_eq!([mark.index, mark.funding], [or_nothing("i"), or_nothing("r")]);
            assert_eq!(mark.time_ms, data["E"].as_u64().unwrap_or(0));
        }
        Says::Done(id) => assert_eq!(id, number(&value["id"])),
        Says::Refused(words) => {
            let said = value["error"]["msg"].as_str().or(value["msg"].as_str());
            assert!(
                text::is(words, said.unwrap_or_default().as_bytes())
                    || value.get("error").is_some()
            );
        }
        Says::Other => {
            let known = ["bookTicker", "aggTrade", "trade", "markPriceUpdate"];
            assert!(event.is_none_or(|event| !known.contains(&event)), "{value}");
            let partial = stream.is_some_and(|stream| stream.contains('@'));
            assert!(event != Some("depthUpdate") || partial, "{value}");
        }
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
            Says::Mark(_) => 'M',
            Says::Done(_) => 'd',
            Says::Refused(_) => 'r',
            Says::Other => 'o',
        });
    }
    assert_eq!(String::from_iter(said), "DDDQQTTTMMSSdrrrooooooo");
}

/// Fields by hand, so that the reading above is not its own proof.
#[test]
fn the_values_are_the_venues() {
    let mut levels = Levels::default();
    let message = scan(MESSAGES[0].as_bytes(), &mut levels).unwrap();
    assert_eq!(message.symbol, b"BTCUSDT");
    let (first, last, previous) = (5_123_107_832_006, 5_123_107_837_557, Some(5_123_107_831_937));
    let time_ms = 1_723_161_256_298;
    let depth = Depth { is_snapshot: false, first, last, previous, checksum: None, time_ms };
    assert_eq!(message.says, Says::Depth(depth));
    let level = |price, quantity| Level { price: Fixed(price), quantity: Fixed(quantity) };
    assert_eq!(
        levels.bids,
        [level(5_871_020_000_000, 1_400_000), level(6_165_280_000_000, 19_500_000)]
    );
    assert_eq!(levels.asks[1], level(6_180_460_000_000, 0));
    assert_eq!(levels.asks[2], level(10_000_010_000_000, 2_000_400_000));

    let takers =
        [5, 6, 7].map(|index| match scan(MESSAGES[index].as_bytes(), &mut levels).unwrap().says {
            Says::Trade(trade) => (trade.id, trade.taker),
            says => panic!("{says:?}"),
        });
    let expected =
        [(2_281_946_142, Side::Ask), (2_281_946_143, Side::Bid), (5_264_312_803, Side::Ask)];
    assert_eq!(takers, expected);
    let funding = match scan(MESSAGES[8].as_bytes(), &mut levels).unwrap().says {
        Says::Mark(mark) => mark.funding,
        says => panic!("{says:?}"),
    };
    assert_eq!(funding, Fixed(-10_000));
    assert_eq!(scan(MESSAGES[11].as_bytes(), &mut levels).unwrap().symbol, b"btcusdt");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let mut levels = Levels::default();
    let quote = r#"{"e":"bookTicker","u":1,"s":"X","b":"1","B":"2","a":"3","A":"4"}"#;
    assert!(scan(quote.as_bytes(), &mut levels).is_ok());
    for (from, to, fault, at) in [
        ("\"u\":1", "\"u\":-1", Fault::Expected("a whole number that is not negative"), 22),
        ("\"u\":1", "\"u\":18446744073709551616", Fault::TooLarge, 22),
        ("\"u\":1", "\"u\":1.0", Fault::Expected("a whole number that is not negative"), 22),
        ("\"u\":1", "\"u\":\"1\"", Fault::Expected("a whole number that is not negative"), 22),
        ("\"u\":1", "\"v\":1", Fault::Missing("u"), 64),
        ("\"B\":\"2\"", "\"B\":\"-2\"", Fault::Negative, 44),
        ("\"B\":\"2\"", "\"B\":\"2,0\"", Fault::NotADecimal, 44),
        ("\"B\":\"2\"", "\"B\":\"0.000000001\"", Fault::NotADecimal, 44),
        ("\"s\":\"X\",", "", Fault::Missing("s"), 56),
        ("\"s\":\"X\",", "\"e\":\"trade\",", Fault::Contradiction, 28),
        ("}", "}}", Fault::Trailing, 64),
        ("}", "", Fault::Truncated, 63),
        ("\"A\":\"4\"", "\"A\":\"4", Fault::Expected("a comma or the object's end"), 0),
    ] {
        let text = quote.replace(from, to);
        let error = scan(text.as_bytes(), &mut levels).unwrap_err();
        if at > 0 {
            assert_eq!(error, ScanError { fault, at }, "{text}");
        }
    }
    let error = scan(br#"{"e":"bookTicker","u":x}"#, &mut levels).unwrap_err();
    assert_eq!(error.to_string(), "expected a whole number that is not negative (byte 22)");
}

#[test]
fn the_last_of_a_key_that_comes_twice_counts() {
    let mut levels = Levels::default();
    for text in [
        r#"{"e":"depthUpdate","U":1,"u":2,"pu":0,"s":"A","b":[["1","1"]],"a":[["3","3"]],"s":"B","u":5,"b":[["2","2"]],"e":"depthUpdate","a":[]}"#,
        r#"{"data":{"e":"kline"},"stream":"x@depth","data":{"e":"depthUpdate","U":1,"u":5,"pu":0,"b":[["2","2"]],"a":[]},"stream":"b@depth"}"#,
        r#"{"stream":"x@y","data":{"U":1,"u":5,"pu":0,"b":[["2","2"]],"a":[],"e":"depthUpdate"},"stream":"B@depth"}"#,
    ] {
        let message = scan(text.as_bytes(), &mut levels).unwrap();
        assert!(message.is_of(b"B"), "{text}");
        check(&message, &levels, &serde_json::from_str(text).unwrap());
        assert_eq!((levels.bids.len(), levels.asks.len()), (1, 0));
    }
}

/// Was `QUIETCORE_RECORDING` set to a file of recorded messages?
#[test]
fn a_recording_is_read_as_serde_json_reads_it() {
    let Ok(path) = std::env::var("QUIETCORE_RECORDING") else {
        return println!("skipped: QUIETCORE_RECORDING names no recording");
    };
    let file = std::fs::File::open(&path).unwrap();
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    let (mut levels, mut read, mut compared) = (Levels::default(), 0, 0);
    for line in lines {
        let line = line.unwrap();
        let text = line.split_once(' ').unwrap().1;
        let message = scan(text.as_bytes(), &mut levels).unwrap();
        assert!(message.says != Says::Other, "{text}");
        check(&message, &levels, &serde_json::from_str(text).unwrap());
        read += 1;
        compared += levels.bids.len() + levels.asks.len();
    }
    println!("{read} messages, {compared} levels");
    assert!(read > 0);
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

    /// Any order of keys, whitespace, escapes and unknown keys change nothing.
    #[test]
    fn a_message_written_otherwise_says_the_same(index in 0..MESSAGES.len(), style in style(), seed in 1..u64::MAX) {
        let value: Value = serde_json::from_str(MESSAGES[index]).unwrap();
        let written = oracle::rewrite(&value, style, &mut Random(seed));
        let [mut before, mut after] = [Levels::default(), Levels::default()];
        let expected = scan(MESSAGES[index].as_bytes(), &mut before).unwrap();
        let message = scan(written.as_bytes(), &mut after);
        let message = message.map_err(|error| TestCaseError::fail(format!("{error}: {written}")))?;
        match (message.says, expected.says) {
            (Says::Refused(words), Says::Refused(_)) => {
                let said = value["error"]["msg"].as_str().or(value["msg"].as_str()).unwrap();
                prop_assert!(text::is(words, said.as_bytes()), "{}", written);
            }
            (says, expected) => prop_assert_eq!(says, expected, "{}", written),
        }
        prop_assert!(message.is_of(expected.symbol), "{}", written);
        prop_assert_eq!(after, before);
    }

    /// What is accepted of a damaged message is what serde_json reads; what it refuses is refused.
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
