//! Binance USD-M messages read the plain way, with a tree of values: what the product's own scanner
//! is not needed for, and an oracle that shares no code with it.

use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Depth, Level, Levels, Message, Quote, Says};
use serde_json::Value;

/// Digits with or without a point as a whole number of 1e-8.
pub fn fixed(text: &str) -> Option<Fixed> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let padded = format!("{fraction:0<8}");
    let value = format!("{whole}{}", padded.get(..8)?).parse::<i64>().ok()?;
    Some(Fixed(sign * value))
}

fn level(row: &Value) -> Option<Level> {
    let part = |at: usize| fixed(row.get(at)?.as_str()?);
    Some(Level { price: part(0)?, quantity: part(1)? })
}

fn side(rows: &Value, levels: &mut Vec<Level>) -> Option<()> {
    for row in rows.as_array()? {
        levels.push(level(row)?);
    }
    Some(())
}

fn quote(data: &Value) -> Option<Quote> {
    let of = |price: &str, quantity: &str| {
        Some(Level {
            price: fixed(data[price].as_str()?)?,
            quantity: fixed(data[quantity].as_str()?)?,
        })
    };
    Some(Quote {
        update: data["u"].as_u64()?,
        bid: of("b", "B")?,
        ask: of("a", "A")?,
        time_ms: data["T"].as_u64().unwrap_or(0),
    })
}

/// What a message says; `None` where it is none.
pub fn scan<'a>(text: &'a [u8], levels: &mut Levels) -> Option<Message<'a>> {
    let message: Value = serde_json::from_slice(text).ok()?;
    let data = if message["data"].is_object() { &message["data"] } else { &message };
    levels.clear();
    let number = |key: &str| data[key].as_u64();
    let says = match data["e"].as_str() {
        Some("depthUpdate") => {
            side(&data["b"], &mut levels.bids)?;
            side(&data["a"], &mut levels.asks)?;
            Says::Depth(Depth {
                is_snapshot: false,
                first: number("U")?,
                last: number("u")?,
                previous: number("pu"),
                checksum: None,
                time_ms: number("T")?,
            })
        }
        Some("bookTicker") => Says::Quote(quote(data)?),
        None if data["lastUpdateId"].is_u64() => {
            side(&data["bids"], &mut levels.bids)?;
            side(&data["asks"], &mut levels.asks)?;
            let last = number("lastUpdateId")?;
            Says::Depth(Depth { is_snapshot: true, first: last, last, ..Depth::default() })
        }
        _ => Says::Other,
    };
    Some(Message { symbol: symbol(text, data["s"].as_str()), says })
}

/// The symbol where it stands in the text.
fn symbol<'a>(text: &'a [u8], symbol: Option<&str>) -> &'a [u8] {
    let Some(symbol) = symbol else { return b"" };
    let at = text.windows(symbol.len()).position(|part| part == symbol.as_bytes());
    at.map_or(b"", |at| &text[at..][..symbol.len()])
}
