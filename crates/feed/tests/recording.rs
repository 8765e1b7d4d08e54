//! A real recording, whole and damaged. Needs `QUIETCORE_RECORDING`: a recording of one Binance
//! USD-M instrument with its changes of the book, best prices and a snapshot.

mod plain;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Depth, Level, Levels, Message, Says, Side};
use quietcore_feed::recording::check::{BookCheck, Replay};
use quietcore_feed::recording::{Reader, Writer};
use quietcore_feed::sync::{Counters, Market, MarketConfig};
use quietcore_feed::venues::Rule;
use quietcore_measure::Cell;

fn recording() -> Option<PathBuf> {
    let path = std::env::var_os("QUIETCORE_RECORDING").map(PathBuf::from);
    let found = path.filter(|path| path.is_file());
    if found.is_none() {
        println!("skipped: QUIETCORE_RECORDING names no file");
    }
    found
}

fn scan<'a>(text: &'a [u8], levels: &mut Levels) -> Result<Message<'a>, String> {
    plain::scan(text, levels).ok_or_else(|| "no message of this venue".to_owned())
}

#[test]
fn every_top_of_the_recorded_book_is_the_venues_own() {
    let Some(path) = recording() else { return };
    let check = BookCheck::of(&path, Rule::Bridge, MarketConfig::default(), scan).unwrap();
    assert_eq!((check.bad_lines, check.not_understood, check.replay.unassigned()), (0, 0, 0));
    let table = check.table();
    let row: Vec<_> = table.columns.iter().map(String::as_str).zip(&table.rows[0]).collect();
    println!("{row:?}, {} messages", check.messages);
    assert_eq!(table.rows.len(), 1);
    let cell = |name| match row.iter().find(|(column, _)| *column == name) {
        Some((_, Cell::Int(value))) => *value,
        other => panic!("{other:?}"),
    };
    // All changes but those before the snapshot.
    assert!(cell("bridged") > 0 && cell("depth_events") - cell("bridged") < 10);
    assert_eq!(cell("bbo_checked"), cell("bridged"));
    for wrong in ["gaps", "crossed", "bbo_mismatch", "checksum_checked", "checksum_mismatch"] {
        assert_eq!(cell(wrong), 0, "{wrong}");
    }
}

type Book = [BTreeMap<i64, i64>; 2];
/// A change, a snapshot or a quote.
type Heard = (Says<'static>, Levels);

/// The first messages of a recording, and a plain book after each change from its snapshot on.
struct Recorded {
    heard: Vec<Heard>,
    books: BTreeMap<u64, Book>,
}

fn set(book: &mut Book, levels: &Levels) {
    for (side, levels) in book.iter_mut().zip([&levels.bids, &levels.asks]) {
        for Level { price, quantity } in levels {
            match quantity.0 {
                0 => side.remove(&price.0),
                quantity => side.insert(price.0, quantity),
            };
        }
    }
}

fn read(path: &Path, most: usize) -> Recorded {
    let mut reader = Reader::open(path).expect("the recording opens");
    let (mut heard, mut levels) = (Vec::new(), Levels::default());
    let (mut book, mut first) = (Book::default(), u64::MAX);
    while let Some(line) =
        reader.next_line().expect("a line").filter(|line| line.number < most as u64)
    {
        match scan(line.json, &mut levels).expect("a message").says {
            Says::Depth(depth) => {
                if depth.is_snapshot {
                    set(&mut book, &levels);
                    first = depth.last;
                }
                heard.push((Says::Depth(depth), levels.clone()));
            }
            Says::Quote(quote) => heard.push((Says::Quote(quote), Levels::default())),
            _ => {}
        }
    }
    let mut books = BTreeMap::new();
    for (says, levels) in &heard {
        if let Says::Depth(Depth { is_snapshot: false, last, .. }) = says {
            if *last >= first {
                set(&mut book, levels);
                books.insert(*last, book.clone());
            }
        }
    }
    Recorded { heard, books }
}

impl Recorded {
    /// What the venue answers when it is asked at this message.
    fn snapshot(&self, index: usize) -> Option<(Depth, Levels)> {
        let is_change = |(says, _): &Heard| match says {
            Says::Depth(depth) if !depth.is_snapshot => Some(depth.last),
            _ => None,
        };
        let last = self.heard[..=index].iter().rev().find_map(is_change)?;
        let [bids, asks] = self.books.get(&last)?.each_ref().map(|side| {
            let level = |(price, quantity): (&i64, &i64)| Level {
                price: Fixed(*price),
                quantity: Fixed(*quantity),
            };
            side.iter().map(level).collect()
        });
        let depth = Depth { is_snapshot: true, first: last, last, ..Depth::default() };
        Some((depth, Levels { bids, asks }))
    }
}

/// The levels near the touch are what they were.
fn check(market: &Market, recorded: &Recorded) -> bool {
    let Some(book) = market.book() else { return false };
    let expected = &recorded.books[&market.last()];
    let row = |(price, quantity): (&i64, &i64)| (*price, *quantity);
    let bids = expected[0].iter().rev().map(row);
    let asks = expected[1].iter().map(row);
    let of = |side| book.levels(side).map(|level: Level| (level.price.0, level.quantity.0));
    assert!(of(Side::Bid).take(50).eq(bids.take(50)), "bids at {}", market.last());
    assert!(of(Side::Ask).take(50).eq(asks.take(50)), "asks at {}", market.last());
    true
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// Which messages come, in which order: some left out, doubled or moved on by a few places.
fn damaged(count: usize, one_in: usize, random: &mut Random) -> Vec<usize> {
    let mut order = Vec::new();
    for index in 0..count {
        match random.below(one_in * 3) {
            0 => {}
            1 => order.extend([index, index]),
            2 => {
                let at = order.len().saturating_sub(random.below(30));
                order.insert(at, index);
            }
            _ => order.push(index),
        }
    }
    order
}

#[test]
fn a_damaged_recording_never_shows_a_wrong_book() {
    let Some(path) = recording() else { return };
    let recorded = read(&path, 6_000);
    let (mut total, mut shown) = (Counters::default(), 0);
    for seed in 0..9 {
        let mut random = Random(seed + 1);
        let one_in = [20, 200, 2_000][seed as usize % 3];
        let mut replay = Replay::new(Rule::Bridge, MarketConfig::default(), ["BTCUSDT"]);
        for index in damaged(recorded.heard.len(), one_in, &mut random) {
            let (says, levels) = &recorded.heard[index];
            replay.play(&Message { symbol: b"BTCUSDT", says: *says }, levels);
            let market = replay.markets().next().unwrap().1;
            if matches!(says, Says::Depth(_)) {
                shown += u64::from(check(market, &recorded));
            }
            // The answer to a question takes a while.
            let answer = market.needs_snapshot() && random.below(40) == 0;
            if let Some((depth, levels)) = recorded.snapshot(index).filter(|_| answer) {
                replay.play(&Message { symbol: b"", says: Says::Depth(depth) }, &levels);
            }
        }
        let counters = *replay.markets().next().unwrap().1.counters();
        total.gaps += counters.gaps;
        total.duplicates += counters.duplicates;
        total.resyncs += counters.resyncs;
    }
    println!("9 damaged copies: {shown} times shown, {total:?}");
    assert!(total.gaps > 20 && total.duplicates > 10 && total.resyncs > 20 && shown > 1_000);
}

#[test]
fn two_instruments_in_one_file_share_no_snapshot() {
    let Some(path) = recording() else { return };
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both.gz");
    let mut reader = Reader::open(&path).unwrap();
    let mut writer = Writer::create(&both).unwrap();
    let mut written = 0;
    while let Some(line) = reader.next_line().unwrap().filter(|_| written < 3_000) {
        writer.write(line.received_ns, line.json).unwrap();
        let text = std::str::from_utf8(line.json).unwrap();
        // The other one is a quiet copy whose numbers and prices are others.
        if written % 3 == 0 && text.contains("depthUpdate") {
            let other = text.replace("BTCUSDT", "XYZUSDT").replace(":5123", ":4123");
            writer.write(line.received_ns, other.as_bytes()).unwrap();
        }
        written += 1;
    }
    writer.finish().unwrap();
    let check = BookCheck::of(&both, Rule::Bridge, MarketConfig::default(), scan).unwrap();
    let bridged: Vec<_> = check.replay.markets().map(|(_, m)| m.counters().bridged).collect();
    assert!(bridged[0] > 100, "the one that the snapshot fits: {bridged:?}");
    assert_eq!(bridged[1], 0);
    assert_eq!(check.replay.unassigned(), 0);
}
