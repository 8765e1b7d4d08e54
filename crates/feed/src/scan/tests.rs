//! `serde_json` says what is JSON and what it means.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::market::{Level, Levels};

const KNOWN: &[&[u8]] = &[b"data", b"pu", b"u"];

/// Steps over a whole message.
fn skip(text: &[u8]) -> Result<(), ScanError> {
    let mut scanner = Scanner::new(text);
    scanner.skip()?;
    scanner.end()
}

/// What serde_json says; `None` where it refuses for a limit that is its own.
fn is_json(text: &[u8]) -> Option<bool> {
    match serde_json::from_slice::<Value>(text) {
        Ok(_) => Some(true),
        Err(error) => {
            let own = ["recursion limit", "number out of range"];
            let is_own = own.iter().any(|limit| error.to_string().contains(limit));
            (!is_own).then_some(false)
        }
    }
}

#[test]
fn json_is_what_serde_json_says() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "{}",
        "[]",
        "[1,]",
        "[,1]",
        "{,}",
        "{\"a\":1,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{a:1}",
        "{1:1}",
        "{\"a\":1 \"b\":2}",
        "[1 2]",
        "null",
        "nul",
        "nulll",
        "true",
        "tru",
        "false",
        "falsey",
        "True",
        "0",
        "-0",
        "00",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1.5",
        "1e5",
        "1E+5",
        "1e-5",
        "1e",
        "1e+",
        "1.e5",
        "-1.5e-7",
        "0x1",
        "1 2",
        "\"\"",
        "\"a",
        "a\"",
        "\"\\\"",
        "\"\\n\\r\\t\\b\\f\\/\\\\\\\"\"",
        "\"\\x\"",
        "\"\\u0041\"",
        "\"\\u004\"",
        "\"\\u00g1\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\u0041\"",
        "\"\\uD83D\\uDE00\"",
        "\"\t\"",
        "\"\u{7f}\"",
        "\"é\u{10ffff}\"",
        " \t\r\n[ 1 , { } ] \n",
        "[1]x",
        "[1]\0",
        "\u{feff}{}",
        "[[[[[]]]]]",
        "[[[[]]",
        "[}",
        "{]",
        "{\"a\":[}]",
        "[\"a\":1]",
        "{\"a\":{\"b\":[1,{\"c\":null}]},\"d\":\"e\"}",
        "\u{b}1",
        "NaN",
        "Infinity",
        "'a'",
        "\"\\",
        "\"\\u",
        "\"\\ud83d\\",
        "\"\\ud83d\\u",
        "/**/1",
        "1//",
    ] {
        assert_eq!(Some(skip(text.as_bytes()).is_ok()), is_json(text.as_bytes()), "{text:?}");
    }
    for bytes in [
        &b"\"\xff\""[..],
        b"\"\xc3\"",
        b"\"\xed\xa0\x80\"",
        b"{\"\xff\":1}",
        b"\xff",
        b"\"\\\xff\"",
    ] {
        assert_eq!((skip(bytes).is_ok(), is_json(bytes)), (false, Some(false)), "{bytes:?}");
    }
}

#[test]
fn nesting_has_a_limit_and_no_message_exhausts_the_stack() {
    let limit = DEPTH as usize;
    for (depth, fits) in [(limit, true), (limit + 1, false), (1_000_000, false)] {
        let arrays = "[".repeat(depth) + &"]".repeat(depth);
        let both = "{\"a\":[".repeat(depth / 2) + &"[]".repeat(depth % 2) + &"]}".repeat(depth / 2);
        for text in [arrays, both] {
            assert_eq!(skip(text.as_bytes()).is_ok(), fits, "{depth}");
        }
        let fault = skip("[".repeat(depth).as_bytes()).unwrap_err().fault;
        assert_eq!(fault, if fits { Fault::Truncated } else { Fault::TooDeep });
    }
}

#[test]
fn numbers_are_whole_positive_and_of_64_bits() {
    let number = |text: &str| {
        let mut scanner = Scanner::new(text.as_bytes());
        let number = scanner.number()?;
        scanner.end().map(|()| number)
    };
    for text in [
        "0",
        "7",
        " 5123107832006 ",
        "18446744073709551615",
        "18446744073709551616",
        "00",
        "01",
        "-1",
        "99999999999999999999",
        "1.0",
        "1e3",
        "1E3",
        "",
        "x",
        "\"1\"",
        "9999999999999999999",
        "123456789012345678901",
        "1x",
        "-0",
        "null",
        "12345678",
        "123456789",
        "1234567 ",
        "12:45678",
    ] {
        let whole = serde_json::from_str::<u64>(text).ok();
        // serde_json takes the negative zero for a zero.
        let whole = whole.filter(|_| text != "-0");
        assert_eq!(number(text).ok(), whole, "{text:?}");
    }
    assert_eq!(number("99999999999999999999").unwrap_err().fault, Fault::TooLarge);
    let signed = |text: &str| Scanner::new(text.as_bytes()).signed_number();
    for (text, value) in [
        ("-1", Some(-1)),
        ("0", Some(0)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775807", Some(i64::MAX)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("- 1", None),
        ("--1", None),
        ("-", None),
    ] {
        assert_eq!(signed(text).ok(), value, "{text}");
    }
    let quoted = |text: &str| Scanner::new(text.as_bytes()).quoted_number().ok();
    assert_eq!(quoted(r#""1597026383085""#), Some(1_597_026_383_085));
    assert_eq!(quoted(r#""\u0031\u0035""#), Some(15));
    for text in [r#""""#, r#""-1""#, r#""+1""#, "1", r#""1.0""#, r#""18446744073709551616""#] {
        assert_eq!(quoted(text), None, "{text}");
    }
}

#[test]
fn keys_come_plain_where_they_are_known() {
    let keys = |text: &'static str| -> Result<Vec<&[u8]>, ScanError> {
        let mut scanner = Scanner::new(text.as_bytes());
        let mut keys = Vec::new();
        let mut key = scanner.first_key(KNOWN)?;
        while let Some(name) = key {
            keys.push(name);
            scanner.skip()?;
            key = scanner.next_key(KNOWN)?;
        }
        scanner.end().map(|()| keys)
    };
    let all: &[&[u8]] = &[b"u", b"pu", b"x", b"data", b"\\u0078\\\""];
    let text = r#" { "\u0075" : 1 , "p\u0075":2,"x":[{"u":5}], "\u0064ata" :null,"\u0078\"":"" } "#;
    assert_eq!(keys(text).unwrap(), all);
    assert_eq!(keys("{}").unwrap(), [b""; 0]);
    for text in [
        "{\"u\":1,}",
        "{\"u\":1 1}",
        "{\"u\":1,\"\":",
        "{\"u\":1,\"a",
        "[]",
        "{\"u\":1]",
        "{\"u\":1,:",
    ] {
        assert!(keys(text).is_err(), "{text}");
    }
}

#[test]
fn strings_are_compared_by_what_they_mean() {
    assert!(text::is(b"depthUpdate", b"depthUpdate"));
    assert!(text::is(b"\\u0064epth\\u0055pdate", b"depthUpdate"));
    assert!(!text::is(b"\\u0064epth", b"depthUpdate"));
    assert!(!text::is(b"depthUpdat", b"depthUpdate"));
    assert!(text::names(b"btcusdt", b"BTCUSDT") && text::names(b"\\u0062TC", b"btc"));
    assert!(!text::names(b"ethusdt", b"BTCUSDT") && !text::names(b"\\u0062", b"BTC"));
    assert_eq!(text::until(b"btcusdt@depth", '@'), b"btcusdt");
    assert_eq!(text::until(b"btc\\u0075sdt\\u0040depth", '@'), b"btc\\u0075sdt");
    assert_eq!(text::until(b"btcusdt", '@'), b"btcusdt");
    let mut buffer = [0; text::BUFFER];
    assert_eq!(text::plain(b"6\\u0031.5", &mut buffer), Some(&b"61.5"[..]));
    assert_eq!(text::plain(b"\\ud83d\\ude00\\/", &mut buffer), Some("😀/".as_bytes()));
    assert_eq!(text::plain(&b"\\n".repeat(65), &mut buffer), None);
}

fn levels(text: &str) -> Result<Vec<Level>, ScanError> {
    let mut scanner = Scanner::new(text.as_bytes());
    let mut levels = Levels::default();
    scanner.levels(&mut levels.bids)?;
    scanner.end().map(|()| levels.bids)
}

fn level(price: &str, quantity: &str) -> Level {
    let [price, quantity] = [price, quantity].map(|text| Fixed::parse(text.as_bytes()).unwrap());
    Level { price, quantity }
}

#[test]
fn levels_keep_their_order_and_more_in_a_row_is_skipped() {
    let three =
        [level("61652.80", "0.195"), level("61653.3", "0"), level("100000.10", "12345678.9")];
    for text in [
        r#"[["61652.80","0.195"],["61653.3","0"],["100000.10","12345678.9"]]"#,
        " [ [ \"61652.80\" , \"0.195\" ] ,\n[\"61653.3\",\"0\"\t], [\"100000.10\",\"12345678.9\"]]",
        r#"[["61652.80","0.195","0","13"],["61653.3","0",[{}]],["100000.10","12345678.9",null]]"#,
        r#"[["\u0036\u0031652.80","0.195"],["6.16533e4","0E-8"],["0100000.100000000000","12345678.9"]]"#,
    ] {
        assert_eq!(levels(text).unwrap(), three, "{text}");
    }
    assert_eq!(levels("[]").unwrap(), []);
    assert_eq!(levels(" [ ] ").unwrap(), []);
}

#[test]
fn levels_that_are_none_are_refused_with_the_place() {
    for (text, fault, at) in [
        (r#"[["1","2"]"#, Fault::Truncated, 10),
        (r#"[["1","2"],]"#, Fault::Expected("a level"), 11),
        (r#"[["1"]]"#, Fault::Expected("a comma and a quantity"), 5),
        (r#"[["1","2",]]"#, Fault::Expected("a value"), 10),
        (r#"[["1","-2"]]"#, Fault::Negative, 6),
        (r#"[["-1","2"]]"#, Fault::Negative, 2),
        (r#"[["","2"]]"#, Fault::NotADecimal, 2),
        (r#"[["1","2x"]]"#, Fault::NotADecimal, 6),
        (r#"[["1","0.123456789"]]"#, Fault::NotADecimal, 6),
        (r#"[["1","99999999999999"]]"#, Fault::NotADecimal, 6),
        (r#"[[1,2]]"#, Fault::Expected("a string"), 2),
        (r#"[["1""2"]]"#, Fault::Expected("a comma and a quantity"), 5),
        (r#"[["1","2""#, Fault::Truncated, 9),
        (r#"{}"#, Fault::Expected("an array of levels"), 0),
        (r#"["1","2"]"#, Fault::Expected("a level"), 1),
        ("[[\"1\",\"2\"] [", Fault::Expected("a comma or the levels' end"), 11),
    ] {
        assert_eq!(levels(text), Err(ScanError { fault, at }), "{text}");
    }
}

/// Any value, two levels deep at most in its own words.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((".{0,4}", inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_serde_json_writes_is_skipped(value in json()) {
        for text in [serde_json::to_vec(&value), serde_json::to_vec_pretty(&value)] {
            prop_assert_eq!(skip(&text.unwrap()), Ok(()));
        }
    }

    #[test]
    fn damaged_json_is_what_serde_json_says(
        value in json(), at: prop::sample::Index, byte in prop_oneof![any::<u8>(), prop::sample::select(&b"\"\\{}[],:0-.eu \n"[..])], how in 0..4,
    ) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let at = at.index(text.len());
        match how {
            0 => text[at] = byte,
            1 => drop(text.remove(at)),
            2 => text.insert(at, byte),
            _ => text.truncate(at),
        }
        if let Some(is) = is_json(&text) {
            prop_assert_eq!(skip(&text).is_ok(), is, "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn strings_mean_what_serde_json_says(
        meant in ".{0,12}", escape in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut written = String::from("\"");
        for (char, escape) in meant.chars().zip(escape) {
            if escape {
                let mut units = [0; 2];
                let units = char.encode_utf16(&mut units);
                units.iter().for_each(|unit| written += &format!("\\u{unit:04x}"));
            } else {
                let quoted = serde_json::to_string(&char.to_string()).unwrap();
                written += &quoted[1..quoted.len() - 1];
            }
        }
        written.push('"');
        prop_assert_eq!(&serde_json::from_str::<String>(&written).unwrap(), &meant);
        let string = Scanner::new(written.as_bytes()).string().unwrap();
        prop_assert!(text::is(string, meant.as_bytes()));
        let other = format!("{meant}x");
        prop_assert!(!text::is(string, other.as_bytes()));
    }
}
