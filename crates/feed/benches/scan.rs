//! What reading a message costs next to the libraries that one would take for it.
//!
//! Every reader gets the same generated messages and gives prices and quantities as numbers: ours
//! as fixed point, the others as `f64`, which is how they are used. They read into borrowing types,
//! as their documentation advises. Readers take turns in short rounds; medians and ratios of the
//! same run are printed. sonic-rs asks for the CPU's own instructions:
//! `RUSTFLAGS='-C target-cpu=native' cargo bench -p quietcore-feed --bench scan`

use std::hint::black_box;
use std::time::Instant;

use quietcore_feed::market::{Levels, Says};
use quietcore_feed::venues::Venue;
use quietcore_feed::venues::binance_usdm::BinanceUsdm;
use serde::Deserialize;

/// Messages of a kind: more than a branch predictor learns by heart.
const MESSAGES: usize = 1024;
/// Messages of a round: short enough that other work on the machine spoils few rounds.
const ROUND: usize = 128;
const ROUNDS: usize = 1000;

#[derive(Deserialize)]
struct Wrapped<'a, T> {
    #[serde(rename = "stream")]
    _stream: &'a str,
    data: T,
}

#[derive(Deserialize)]
struct Depth<'a> {
    #[serde(rename = "s")]
    symbol: &'a str,
    #[serde(rename = "T")]
    time: u64,
    #[serde(rename = "U")]
    first: u64,
    #[serde(rename = "u")]
    last: u64,
    #[serde(rename = "pu")]
    previous: u64,
    #[serde(rename = "b", borrow)]
    bids: Vec<[&'a str; 2]>,
    #[serde(rename = "a", borrow)]
    asks: Vec<[&'a str; 2]>,
}

#[derive(Deserialize)]
struct Ticker<'a> {
    #[serde(rename = "s")]
    symbol: &'a str,
    #[serde(rename = "u")]
    update: u64,
    #[serde(rename = "T")]
    time: u64,
    #[serde(rename = "b")]
    bid: &'a str,
    #[serde(rename = "B")]
    bid_quantity: &'a str,
    #[serde(rename = "a")]
    ask: &'a str,
    #[serde(rename = "A")]
    ask_quantity: &'a str,
}

/// What a reader keeps from message to message, and a sum so that nothing is left out.
#[derive(Default)]
struct Book {
    levels: Levels,
    sides: [Vec<(f64, f64)>; 2],
    sum: u64,
}

type Reader = fn(&[u8], &mut Book);
type Number = fn(&str) -> f64;

fn ours(text: &[u8], book: &mut Book) {
    let message = BinanceUsdm.scan(text, &mut book.levels).expect("a message");
    book.sum += match message.says {
        Says::Depth(depth) => depth.last,
        Says::Quote(quote) => quote.update ^ quote.bid.price.0.unsigned_abs(),
        says => panic!("{says:?}"),
    };
    black_box(&book.levels);
}

fn fast(text: &str) -> f64 {
    fast_float2::parse(text).expect("a number")
}

fn std(text: &str) -> f64 {
    text.parse().expect("a number")
}

fn keep_depth(depth: &Depth<'_>, book: &mut Book, number: Number) {
    for (side, rows) in book.sides.iter_mut().zip([&depth.bids, &depth.asks]) {
        side.clear();
        side.extend(rows.iter().map(|[price, quantity]| (number(price), number(quantity))));
    }
    black_box((&book.sides, depth.symbol, depth.time, depth.first, depth.previous));
    book.sum += depth.last;
}

fn keep_ticker(ticker: &Ticker<'_>, book: &mut Book, number: Number) {
    let texts = [ticker.bid, ticker.bid_quantity, ticker.ask, ticker.ask_quantity];
    black_box((texts.map(number), ticker.symbol, ticker.time));
    book.sum += ticker.update;
}

/// Each library's readers of the two kinds of messages.
macro_rules! readers {
    ($module:ident, $library:ident, $number:ident) => {
        mod $module {
            use super::*;

            pub fn depth(text: &[u8], book: &mut Book) {
                let message: Wrapped<Depth<'_>> = $library::from_slice(text).expect("a message");
                keep_depth(&message.data, book, $number);
            }

            pub fn ticker(text: &[u8], book: &mut Book) {
                let message: Wrapped<Ticker<'_>> = $library::from_slice(text).expect("a message");
                keep_ticker(&message.data, book, $number);
            }
        }
    };
}

readers!(sonic, sonic_rs, fast);
readers!(serde_fast, serde_json, fast);
readers!(serde_std, serde_json, std);

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

/// A side as BTCUSDT has it: prices ascend, a fifth of the levels is gone, most are small.
fn side(random: &mut Random, from: u64, levels: u64) -> String {
    let mut price = from;
    let rows = (0..levels).map(|_| {
        price += 10 + random.below(200);
        let quantity = match random.below(10) {
            0 | 1 => 0,
            2 => random.below(30_000),
            _ => random.below(1_000),
        };
        let [price, quantity] = [(price, 100, 2), (quantity, 1000, 3)]
            .map(|(value, unit, width)| format!("{}.{:0width$}", value / unit, value % unit));
        format!("[\"{price}\",\"{quantity}\"]")
    });
    rows.collect::<Vec<_>>().join(",")
}

/// `new` says whether with the keys of 2026.
fn depths(new: bool) -> Vec<Vec<u8>> {
    let mut random = Random(7);
    let more = if new { r#""ps":"BTCUSDT","st":1,"# } else { "" };
    let message = |id: usize| {
        let id = 5_123_107_832_006 + id as u64 * 5_551;
        let [bids, asks] = [6_050_000, 6_180_030].map(|from| {
            let levels = 4 + random.below(60);
            side(&mut random, from, levels)
        });
        format!(
            r#"{{"stream":"btcusdt@depth@0ms","data":{{"e":"depthUpdate","E":1723161256299,"T":1723161256298,"s":"BTCUSDT",{more}"U":{id},"u":{},"pu":{},"b":[{bids}],"a":[{asks}]}}}}"#,
            id + 5_550, id - 1,
        )
        .into_bytes()
    };
    (0..MESSAGES).map(message).collect()
}

fn tickers(new: bool) -> Vec<Vec<u8>> {
    let mut random = Random(9);
    let (pair, tail) = if new { (r#""ps":"BTCUSDT","#, r#","st":1"#) } else { ("", "") };
    let message = |id: usize| {
        let mut quantity = || format!("{}.{:03}", random.below(20), random.below(1_000));
        let (bid, ask) = (quantity(), quantity());
        format!(
            r#"{{"stream":"btcusdt@bookTicker","data":{{"e":"bookTicker","u":{},"s":"BTCUSDT",{pair}"b":"{}.20","B":"{bid}","a":"{}.30","A":"{ask}","T":1723161256300,"E":1723161256301{tail}}}}}"#,
            5_123_107_837_600 + id, 61_800 + id % 64, 61_800 + id % 64,
        )
        .into_bytes()
    };
    (0..MESSAGES).map(message).collect()
}

/// Nanoseconds per message of one round.
fn round(reader: Reader, messages: &[Vec<u8>], book: &mut Book) -> f64 {
    let start = Instant::now();
    for message in messages {
        reader(black_box(message), book);
    }
    start.elapsed().as_nanos() as f64 / messages.len() as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(kind: &str, messages: &[Vec<u8>], readers: &[(&str, Reader)]) {
    let mut times = vec![Vec::with_capacity(ROUNDS); readers.len()];
    let mut books: Vec<Book> = readers.iter().map(|_| Book::default()).collect();
    for messages in messages.chunks(ROUND).cycle().take(ROUNDS) {
        for (index, (_, reader)) in readers.iter().enumerate() {
            times[index].push(round(*reader, messages, &mut books[index]));
        }
    }
    let bytes = messages.iter().map(Vec::len).sum::<usize>() / messages.len();
    println!("{kind}, {bytes} bytes on average, {ROUNDS} rounds of {ROUND}, medians");
    let medians: Vec<_> = times.iter_mut().map(|times| median(times)).collect();
    for ((name, _), time) in readers.iter().zip(&medians) {
        println!("  {name:<28} {time:8.1} ns/message   ours / this = {:.3}", medians[0] / time);
    }
}

fn main() {
    let depth_readers: [(&str, Reader); 4] = [
        ("ours", ours),
        ("sonic-rs, fast-float2", sonic::depth),
        ("serde_json, fast-float2", serde_fast::depth),
        ("serde_json, f64::from_str", serde_std::depth),
    ];
    let ticker_readers: [(&str, Reader); 4] = [
        ("ours", ours),
        ("sonic-rs, fast-float2", sonic::ticker),
        ("serde_json, fast-float2", serde_fast::ticker),
        ("serde_json, f64::from_str", serde_std::ticker),
    ];
    for (year, new) in [("2024", false), ("2026", true)] {
        compare(&format!("depthUpdate of {year}"), &depths(new), &depth_readers);
        compare(&format!("bookTicker of {year}"), &tickers(new), &ticker_readers);
    }
}
