//! What `serde_json` makes of a message, and messages written otherwise.
#![allow(dead_code, reason = "each test uses a part of it")]

use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Level, Side};
use serde_json::Value;

/// A decimal in quotes as a whole number of 1e-8, by splitting it at the point.
pub fn fixed(value: &Value) -> Fixed {
    let text = value.as_str().expect("a decimal is a string");
    if text.contains(['e', 'E']) {
        return Fixed::parse(text.as_bytes()).expect("a decimal");
    }
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let (decimals, rest) = decimals.split_at(decimals.len().min(8));
    assert!(rest.bytes().all(|digit| digit == b'0'), "{text} is finer than 1e-8");
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    let whole: i128 = whole.parse().expect("digits");
    let decimals: i128 = format!("{decimals:0<8}").parse().expect("digits");
    Fixed(i64::try_from(whole * 100_000_000 + sign * decimals).expect("fits"))
}

/// The rows of one side.
pub fn levels(value: &Value) -> Vec<Level> {
    let rows = value.as_array().expect("an array of levels");
    rows.iter().map(|row| Level { price: fixed(&row[0]), quantity: fixed(&row[1]) }).collect()
}

/// A number that must be there.
pub fn number(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

/// A number in quotes that must be there.
pub fn quoted(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("a whole number in quotes")
}

pub fn taker(is_seller: bool) -> Side {
    if is_seller { Side::Ask } else { Side::Bid }
}

/// What serde_json refuses for a limit of its own.
pub fn is_own_limit(error: &serde_json::Error) -> bool {
    let limits = ["recursion limit", "number out of range"];
    limits.iter().any(|limit| error.to_string().contains(limit))
}

/// xorshift64*
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }
}

/// How a message is written otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The keys of every object in another order.
    pub shuffled: bool,
    /// Whitespace wherever JSON has it.
    pub spaced: bool,
    /// Characters of keys and strings as `\uXXXX`.
    pub escaped: bool,
    /// Keys that nobody knows, with anything in them.
    pub more: bool,
}

/// The same message in another style.
pub fn rewrite(value: &Value, style: Style, random: &mut Random) -> String {
    let mut out = String::new();
    write(value, style, random, &mut out);
    space(style, random, &mut out);
    out
}

fn space(style: Style, random: &mut Random, out: &mut String) {
    if style.spaced {
        (0..random.below(3)).for_each(|_| out.push([' ', '\t', '\n', '\r'][random.below(4)]));
    }
}

fn text(text: &str, style: Style, random: &mut Random, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        if style.escaped && random.below(3) == 0 {
            let mut units = [0; 2];
            let units = char.encode_utf16(&mut units);
            units.iter().for_each(|unit| *out += &format!("\\u{unit:04x}"));
        } else {
            let quoted = serde_json::to_string(&char.to_string()).expect("a string");
            *out += &quoted[1..quoted.len() - 1];
        }
    }
    out.push('"');
}

fn write(value: &Value, style: Style, random: &mut Random, out: &mut String) {
    space(style, random, out);
    match value {
        Value::String(string) => text(string, style, random, out),
        Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(value, style, random, out);
                space(style, random, out);
            }
            space(style, random, out);
            out.push(']');
        }
        Value::Object(map) => {
            let mut pairs: Vec<(String, Value)> =
                map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            if style.more {
                let extra =
                    r#"{"n":[[{"e":"trade","u":1}],-1.5e300,"\ud83d\ude00é",null,true],"b":{}}"#;
                pairs.push(("unknown".into(), serde_json::from_str(extra).expect("JSON")));
                pairs.push(("zz".into(), Value::from("\"}],")));
            }
            if style.shuffled {
                (1..pairs.len()).for_each(|index| pairs.swap(index, random.below(index + 1)));
            }
            out.push('{');
            for (index, (key, value)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                space(style, random, out);
                text(key, style, random, out);
                space(style, random, out);
                out.push(':');
                let more = style.more && !["unknown", "zz"].contains(&&**key);
                write(value, Style { more, ..style }, random, out);
                space(style, random, out);
            }
            space(style, random, out);
            out.push('}');
        }
        _ => *out += &value.to_string(),
    }
}

const POISON: &[&[u8]] = &[
    b"-",
    b"1",
    b"18446744073709551616",
    b"1e999",
    b"\"",
    b"\\",
    b"\\u0041",
    b",",
    b":",
    b"[",
    b"]",
    b"{",
    b"}",
    b"{}",
    b"[]",
    b"null",
    b".",
    b" ",
    b"\0",
    b"\xff",
    "é".as_bytes(),
    b"0",
    b"e",
    b"\"e\":\"trade\",",
    b"\"u\":1,",
    b"\"b\":[],",
    b"\"s\":\"X\",",
    b"\"stream\":\"x@y\",",
    b"[[[[[[[[",
    b"[\"1\",\"2\"],",
];

/// The message with one to four injuries.
pub fn injure(message: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = message.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        let end = at + random.below((bytes.len() - at + 1).min(20));
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 | 3 => drop(bytes.splice(at..at, POISON[random.below(POISON.len())].iter().copied())),
            4 => {
                let copy = bytes[at..end].to_vec();
                drop(bytes.splice(end..end, copy));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    bytes
}
