//! What the market-data engine reads, and the rules that its books live by.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};

use quietcore_feed::book::BookConfig;
use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Depth, Level, Levels, Quote, Side};
use quietcore_feed::recording::Reader;
use quietcore_feed::sync::{Market, MarketConfig, Outcome, State};
use quietcore_feed::venues::Rule;

/// A plain one and one in two gzip members.
pub fn recordings() -> Vec<Vec<u8>> {
    let text =
        "# by hand\n1723161255030314667 {\"stream\":\"x\",\"data\":{\"u\":1}}\r\n\n2 [1]\n3 {}";
    let mut packed = Vec::new();
    for part in [&text[..30], &text[30..]] {
        let mut packer = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
        packer.write_all(part.as_bytes()).expect("memory takes any bytes");
    }
    vec![text.as_bytes().to_vec(), packed]
}

/// Ends, with every line's number larger than the last one's.
pub fn recording(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes.to_vec())) else { return };
    let (mut last, mut errors) = (0, 0);
    loop {
        match reader.next_line() {
            Ok(None) => break,
            Ok(Some(line)) => {
                assert!(line.number > last && matches!(line.json.first(), Some(b'{' | b'[')));
                assert!(!line.json.contains(&b'\n'));
                last = line.number;
            }
            Err(error) => errors += u64::from(!error.is_final()),
        }
    }
    assert_eq!(reader.bad(), errors);
}

/// Numbers out of bytes; nothing where there are none left.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Mostly near `about`, now and then anything.
    fn near(&mut self, about: i64) -> i64 {
        match self.byte() {
            250..=255 => i64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            small => about.wrapping_add(i64::from(small) - 125),
        }
    }

    fn levels(&mut self) -> Levels {
        let mut levels = Levels::default();
        for _ in 0..self.byte() % 8 {
            let (is_bid, step) = (self.byte() % 2 == 0, if self.byte() % 8 == 0 { 1 } else { 100 });
            let about = if is_bid { 9_870 } else { 10_130 };
            let price = Fixed(self.near(about).wrapping_mul(step));
            let quantity = Fixed(self.near(130));
            let side = if is_bid { &mut levels.bids } else { &mut levels.asks };
            side.push(Level { price, quantity });
        }
        levels
    }

    /// One that follows `last` more often than not.
    fn depth(&mut self, last: u64) -> Depth {
        let kind = self.byte();
        let number = |value: i64| value as u64;
        let previous = if kind % 4 == 0 { number(self.near(last as i64)) } else { last };
        let first = previous.wrapping_add(u64::from(kind / 16));
        Depth {
            is_snapshot: kind % 8 == 7,
            first,
            last: if kind % 32 == 1 { number(self.near(0)) } else { first.wrapping_add(3) },
            previous: (kind % 64 != 2).then_some(previous),
            checksum: (kind % 64 == 3).then(|| i32::from(self.byte()) - 1),
            time_ms: 0,
        }
    }
}

/// The plain book that an in-stream market's is compared with.
#[derive(Default)]
struct Plain([BTreeMap<Fixed, Fixed>; 2]);

impl Plain {
    fn apply(&mut self, levels: &Levels) {
        for (side, levels) in self.0.iter_mut().zip([&levels.bids, &levels.asks]) {
            for Level { price, quantity } in levels {
                match *quantity > Fixed::ZERO {
                    true => side.insert(*price, *quantity),
                    false => side.remove(price),
                };
            }
        }
    }

    fn is(&self, market: &Market) -> bool {
        let Some(book) = market.book() else { return true };
        let of = |side| book.levels(side).map(|level| (level.price, level.quantity));
        let [bids, asks] = &self.0;
        of(Side::Bid).eq(bids.iter().rev().map(|(p, q)| (*p, *q)))
            && of(Side::Ask).eq(asks.iter().map(|(p, q)| (*p, *q)))
    }
}

pub fn market_events() -> Vec<Vec<u8>> {
    let mut long = vec![1];
    for n in 0..60u8 {
        long.extend([n % 4, 5, 1, 2, n % 2, 1, 100 + n % 20, 130]);
    }
    vec![long, vec![0, 1, 7, 4, 0, 1, 125, 130, 1, 1, 120, 130], vec![255; 200]]
}

fn sound(market: &Market) {
    let counters = market.counters();
    assert!(counters.bridged <= counters.depth_events);
    assert!(counters.bbo_mismatch <= counters.bbo_checked);
    assert!(counters.checksum_mismatch <= counters.checksum_checked);
    assert_eq!(market.book().is_some(), market.state() == State::Live);
    let Some(book) = market.book() else { return };
    if let [Some(bid), Some(ask)] = [Side::Bid, Side::Ask].map(|side| book.best(side)) {
        assert!(bid.price < ask.price, "a crossed book is not shown");
    }
}

/// A book that is shown is not crossed, and is what the changes that were taken up make of it.
pub fn market_event(bytes: &[u8]) {
    let mut numbers = Numbers(bytes);
    let rule = if numbers.byte() % 2 == 0 { Rule::Bridge } else { Rule::InStream };
    let book = BookConfig { tick: (numbers.byte() % 2 == 0).then_some(Fixed(100)) };
    let config = MarketConfig { book, held_changes: 8, held_levels: 32, snapshot_levels: 4 };
    let mut market = Market::new(rule, config);
    let mut plain = Plain::default();
    while !numbers.is_over() {
        match numbers.byte() {
            0..=199 => {
                let (depth, levels) = (numbers.depth(market.last()), numbers.levels());
                let outcome = market.on_depth(&depth, &levels);
                if rule == Rule::InStream && outcome == Outcome::Applied {
                    if depth.is_snapshot {
                        plain = Plain::default();
                    }
                    plain.apply(&levels);
                }
            }
            200..=229 => {
                let update = numbers.near(market.last() as i64) as u64;
                market.on_quote(&Quote { update, ..Quote::default() });
            }
            230..=239 => market.tidy(),
            240..=244 => market.interrupt(),
            245..=249 => market.forget_quotes(),
            _ => market.finish(),
        }
        sound(&market);
    }
    assert!(rule == Rule::Bridge || plain.is(&market));
}
