//! What a change of a level costs: the book, a `BTreeMap`, a sorted `Vec`.
//!
//! The messages are generated in the shape of a recorded BTC perpetual: some 9,600 levels, 34 of
//! them in half of the messages and 611 in one of a hundred, 22 % deletions, bids in ascending
//! order; and those of `QUIETCORE_RECORDING` where it is set. All three take the same messages in
//! turns and tell the best prices after each one; medians, and their ratios.
//! `cargo bench -p quietcore-feed --bench book [-- --cpu N]`

#[path = "../tests/plain/mod.rs"]
mod plain;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use quietcore_feed::book::{Book, BookConfig};
use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Level, Levels, Says, Side};
use quietcore_measure::CpuSet;
use quietcore_sys::sched;

const ROUNDS: usize = 31;
/// Messages that are timed together.
const TURN: usize = 100;
const TICK: i64 = 10_000_000;

/// A stream of changes that starts from a whole book.
struct Stream {
    name: &'static str,
    snapshot: Levels,
    changes: Vec<Levels>,
}

impl Stream {
    fn levels(&self) -> usize {
        self.changes.iter().map(|change| change.bids.len() + change.asks.len()).sum()
    }
}

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Of a normal distribution, by the sum of twelve even ones.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// Distances from the middle in ticks: half within 120, one in 25 beyond 5 % of the price.
fn distances(random: &mut Random, count: usize) -> Vec<i64> {
    let mut found = std::collections::BTreeSet::new();
    while found.len() < count {
        let ticks = match random.next() % 100 {
            0..4 => 30_900.0 + random.unit() * 500_000.0,
            4..30 => random.unit() * 30_000.0,
            _ => 3_000.0 * random.unit() * random.unit(),
        };
        found.insert(ticks as i64 + 1);
    }
    found.into_iter().collect()
}

fn generated() -> Stream {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // 22 % of the changes are deletions, so 78 % of the prices hold a level at any time.
    let prices = [(); 2].map(|()| distances(&mut random, 9_600 / 2 * 100 / 78));
    let mut changes = Vec::new();
    for _ in 0..4_000 {
        let length = (34.0 * (1.242 * random.normal()).exp()).clamp(1.0, 1_226.0) as usize;
        let mut change = Levels::default();
        for _ in 0..length {
            let bid = random.next() % 2 == 0;
            let prices = &prices[usize::from(bid)];
            let near = random.unit();
            let distance = prices[(near * near * near * prices.len() as f64) as usize];
            let price = Fixed(TICK * (618_000 + if bid { -distance } else { distance }));
            let quantity = if random.next() % 100 < 22 { 0 } else { random.next() % 1_000 + 1 };
            let level = Level { price, quantity: Fixed(quantity as i64 * 100_000) };
            if bid { change.bids.push(level) } else { change.asks.push(level) }
        }
        change.bids.sort_by_key(|level| level.price);
        change.asks.sort_by_key(|level| level.price);
        changes.push(change);
    }
    let mut whole = [const { Vec::new() }; 2];
    for (bid, side) in whole.iter_mut().enumerate() {
        for distance in prices[bid].iter().filter(|_| random.next() % 100 < 78) {
            let price = Fixed(TICK * (618_000 + if bid == 1 { -distance } else { *distance }));
            side.push(Level { price, quantity: Fixed::ONE });
        }
    }
    let [asks, bids] = whole;
    Stream { name: "generated", snapshot: Levels { bids, asks }, changes }
}

/// From the snapshot within the recording on.
fn recorded() -> Option<Stream> {
    let path = std::env::var_os("QUIETCORE_RECORDING")?;
    let file = std::fs::File::open(&path).expect("the recording opens");
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(file).read_to_end(&mut text).expect("the recording is gzip");
    let (mut snapshot, mut last) = (Levels::default(), 0);
    let mut all = Vec::new();
    let mut levels = Levels::default();
    for line in text.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b' ') else { continue };
        let Some(message) = plain::scan(&line[at + 1..], &mut levels) else { continue };
        let Says::Depth(depth) = message.says else { continue };
        if depth.is_snapshot {
            (snapshot, last) = (levels.clone(), depth.last);
        } else {
            all.push((depth.last, levels.clone()));
        }
    }
    let changes = all.into_iter().filter(|(id, _)| *id >= last).map(|(_, levels)| levels).collect();
    Some(Stream { name: "recorded", snapshot, changes })
}

/// What is compared.
trait Candidate {
    fn load(&mut self, snapshot: &Levels);
    fn change(&mut self, change: &Levels) -> [Option<Level>; 2];
    fn all(&self) -> [Vec<Level>; 2];
}

impl Candidate for Book {
    fn load(&mut self, snapshot: &Levels) {
        Book::load(self, snapshot);
    }

    fn change(&mut self, change: &Levels) -> [Option<Level>; 2] {
        self.apply_all(Side::Bid, &change.bids);
        self.apply_all(Side::Ask, &change.asks);
        [self.best(Side::Bid), self.best(Side::Ask)]
    }

    fn all(&self) -> [Vec<Level>; 2] {
        [self.levels(Side::Bid).collect(), self.levels(Side::Ask).collect()]
    }
}

fn level((price, quantity): (&i64, &i64)) -> Level {
    Level { price: Fixed(*price), quantity: Fixed(*quantity) }
}

#[derive(Default)]
struct Trees {
    bids: BTreeMap<i64, i64>,
    asks: BTreeMap<i64, i64>,
}

impl Candidate for Trees {
    fn load(&mut self, snapshot: &Levels) {
        (self.bids, self.asks) = Default::default();
        self.change(snapshot);
    }

    fn change(&mut self, change: &Levels) -> [Option<Level>; 2] {
        for (tree, levels) in [(&mut self.bids, &change.bids), (&mut self.asks, &change.asks)] {
            for level in levels {
                if level.quantity.0 == 0 {
                    tree.remove(&level.price.0);
                } else {
                    tree.insert(level.price.0, level.quantity.0);
                }
            }
        }
        [self.bids.last_key_value().map(level), self.asks.first_key_value().map(level)]
    }

    fn all(&self) -> [Vec<Level>; 2] {
        [self.bids.iter().rev().map(level).collect(), self.asks.iter().map(level).collect()]
    }
}

/// Sorted, the best last: what changes most is where the least must move.
#[derive(Default)]
struct Sorted {
    bids: Vec<Level>,
    asks: Vec<Level>,
}

impl Sorted {
    fn set(side: &mut Vec<Level>, level: Level, key: impl Fn(&Level) -> i64) {
        match side.binary_search_by_key(&key(&level), &key) {
            Ok(at) if level.quantity.0 == 0 => drop(side.remove(at)),
            Ok(at) => side[at] = level,
            Err(at) if level.quantity.0 != 0 => side.insert(at, level),
            Err(_) => {}
        }
    }
}

impl Candidate for Sorted {
    fn load(&mut self, snapshot: &Levels) {
        *self = Self::default();
        self.change(snapshot);
    }

    fn change(&mut self, change: &Levels) -> [Option<Level>; 2] {
        for level in &change.bids {
            Self::set(&mut self.bids, *level, |level| level.price.0);
        }
        for level in &change.asks {
            Self::set(&mut self.asks, *level, |level| -level.price.0);
        }
        [self.bids.last().copied(), self.asks.last().copied()]
    }

    fn all(&self) -> [Vec<Level>; 2] {
        [&self.bids, &self.asks].map(|side| side.iter().rev().copied().collect())
    }
}

/// Nanoseconds for these changes; none where another task was put in this one's place meanwhile.
fn time(candidate: &mut dyn Candidate, changes: &[Levels]) -> Option<f64> {
    let before = sched::usage().expect("this thread's usage");
    let start = Instant::now();
    for change in changes {
        black_box(candidate.change(black_box(change)));
    }
    let took = start.elapsed().as_nanos() as f64;
    let usage = sched::usage().expect("this thread's usage").since(&before);
    (usage.involuntary_switches == 0).then_some(took)
}

fn median(values: &mut [f64]) -> f64 {
    assert!(!values.is_empty(), "no turn was undisturbed: too much else runs on this CPU");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(stream: &Stream) {
    let mut book = Book::new(BookConfig::default());
    let (mut trees, mut sorted) = (Trees::default(), Sorted::default());
    // Of every hundred messages their own median, of those times that nobody else had a part in.
    let turns: Vec<_> = stream.changes.chunks(TURN).collect();
    let mut times = [(); 3].map(|()| vec![Vec::new(); turns.len()]);
    for _ in 0..ROUNDS {
        let mut candidates: [&mut dyn Candidate; 3] = [&mut book, &mut trees, &mut sorted];
        for (times, candidate) in times.iter_mut().zip(&mut candidates) {
            candidate.load(&stream.snapshot);
            for (times, changes) in times.iter_mut().zip(&turns) {
                times.extend(time(*candidate, changes));
            }
        }
    }
    assert!(book.all() == trees.all() && sorted.all() == trees.all(), "the books differ");

    let count = stream.levels() as f64;
    let mut lengths: Vec<f64> =
        stream.changes.iter().map(|c| (c.bids.len() + c.asks.len()) as f64).collect();
    let p50 = median(&mut lengths);
    let p99 = lengths[lengths.len() * 99 / 100];
    let live: usize = book.all().iter().map(Vec::len).sum();
    println!(
        "{}: {} messages, {count} levels (P50 {p50} P99 {p99} a message), {live} in the end",
        stream.name,
        stream.changes.len(),
    );
    let of = times.each_mut().map(|turns| turns.iter_mut().map(|turn| median(turn)).sum::<f64>());
    for (name, time) in ["book", "BTreeMap<i64, i64>", "sorted Vec"].into_iter().zip(of) {
        println!(
            "  {name:<20} {:7.2} ns/level {:9.1} ns/message  x {:.3}",
            time / count,
            time / stream.changes.len() as f64,
            time / of[1],
        );
    }
}

fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != "--cpu").skip(1);
    let allowed = sched::affinity(sched::CALLER).expect("affinity of this thread");
    let cpu = match args.next() {
        Some(number) => number.parse().expect("--cpu takes a number"),
        None => allowed.highest().expect("a CPU to run on"),
    };
    sched::place(sched::CALLER, &[cpu].into_iter().collect::<CpuSet>()).expect("pinning");
    compare(&generated());
    match recorded() {
        Some(stream) => compare(&stream),
        None => println!("recorded: left out, QUIETCORE_RECORDING is not set"),
    }
}
