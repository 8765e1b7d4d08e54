//! No message costs the hot thread an allocation, from the socket to the book: counted over 100,000
//! of them, TLS included.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quietcore_feed::engine::{Address, Config, Engine, Handler, Mode};
use quietcore_feed::market::{Quote, Trade};
use quietcore_feed::server::{
    Age, Begin, Channel, Config as VenueConfig, Event, Generator, Pace, Settings, Source, Tape,
    Venue,
};
use quietcore_feed::sync::Market;
use quietcore_feed::tls::{RecordPath, Roots};
use quietcore_feed::venues::find;

/// Until buffers have their size and books are live.
const WARM_UP: u64 = 30_000;
const MESSAGES: u64 = 100_000;
/// Only a failing test ever waits so long.
const PATIENCE: Duration = Duration::from_secs(300);

/// The system's allocator, counting a thread's calls.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending allocates, too, and is not measured.
    let _ = ALLOCATIONS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is handed to `System` as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are `System`'s.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are `System`'s.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the hot thread has told.
#[derive(Default)]
struct Told {
    messages: AtomicU64,
    books: AtomicU64,
    allocations: AtomicU64,
    is_over: AtomicBool,
}

/// Counts on the hot thread.
struct Counter(Arc<Told>, u64);

impl Counter {
    fn message(&mut self) {
        let number = self.0.messages.fetch_add(1, Ordering::Relaxed) + 1;
        if number == WARM_UP {
            self.1 = ALLOCATIONS.get();
        }
        if number == WARM_UP + MESSAGES {
            self.0.allocations.store(ALLOCATIONS.get() - self.1, Ordering::Relaxed);
            self.0.is_over.store(true, Ordering::Release);
        }
    }
}

impl Handler for Counter {
    fn book(&mut self, _: usize, _: &Market) {
        self.0.books.fetch_add(1, Ordering::Relaxed);
        self.message();
    }

    fn quote(&mut self, _: usize, _: &Quote) {
        self.message();
    }

    fn trade(&mut self, _: usize, _: &Trade) {
        self.message();
    }
}

/// A made-up market without the levels far from its price, as lines of a recording. Those lie beyond
/// the ladder's window, in a tree, which allocates.
struct Near {
    market: Source,
    events: VecDeque<Event>,
    snapshot: Option<String>,
}

impl Near {
    fn new() -> Self {
        let settings =
            Settings { seed: 11, symbols: vec!["BTCUSDT".to_owned()], ..Settings::default() };
        let market = Source::Generated(Box::new(Generator::new(settings)));
        let snapshot = market.snapshot(0, usize::MAX, Age::Now);
        Self { market, events: VecDeque::new(), snapshot }
    }
}

impl Iterator for Near {
    type Item = (u64, Vec<u8>);

    fn next(&mut self) -> Option<(u64, Vec<u8>)> {
        if let Some(snapshot) = self.snapshot.take() {
            return Some((0, near(&snapshot, "bids", "asks").into_bytes()));
        }
        let wanted = [Channel::Depth100, Channel::BookTicker, Channel::AggTrade];
        let mut events = Vec::new();
        while self.events.is_empty() {
            self.market.step(&|stream| wanted.contains(&stream.channel), &mut events);
            self.events.extend(events.drain(..));
        }
        let event = self.events.pop_front()?;
        let text = match event.stream.channel.is_depth() {
            true => near(&event.text, "b", "a"),
            false => event.text,
        };
        Some((event.at, text.into_bytes()))
    }
}

/// A message without the levels that are more than 2,000 from the price; all else is as it was.
fn near(text: &str, bids: &str, asks: &str) -> String {
    let (head, rest) = text.split_once(&format!("\"{bids}\":[")).expect("bids");
    let (bid_rows, rest) = rest.split_once(&format!("],\"{asks}\":[")).expect("asks");
    let end = rest.find("]]").map_or(0, |end| end + 1);
    let (ask_rows, tail) = rest.split_at(end);
    let keep = |rows: &str| {
        let rows = rows.trim_start_matches('[').trim_end_matches(']').split("],[");
        let is_near = |row: &&str| {
            let price = row.split('"').nth(1).and_then(|price| price.parse::<f64>().ok());
            price.is_some_and(|price| (59_800.0..63_800.0).contains(&price))
        };
        let rows: Vec<String> = rows.filter(is_near).map(|row| format!("[{row}]")).collect();
        rows.join(",")
    };
    let (bid_rows, ask_rows) = (keep(bid_rows), keep(ask_rows));
    format!("{head}\"{bids}\":[{bid_rows}],\"{asks}\":[{ask_rows}{tail}")
}

/// Allocations of the hot thread for [`MESSAGES`], and how many of these were books.
fn allocations(mode: Mode, record_path: RecordPath) -> (u64, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = VenueConfig {
        pace: Pace::AsRead,
        begin: Begin::WithListeners(2),
        coalesce: 8,
        queue: 256,
        certificates: Some(folder.path().to_owned()),
        ping_every: Duration::from_millis(100),
        ..VenueConfig::default()
    };
    let tape = Tape::new(Box::new(Near::new()));
    let venue = Venue::start(Source::Recorded(Box::new(tape)), config).expect("a venue");
    let address = venue.address();
    let config = Config {
        at: Some(Address { host: address.ip().to_string(), port: address.port() }),
        roots: Roots::File(venue.roots_path().expect("roots").to_owned()),
        mode,
        record_path,
        publish: false,
        ..Config::new(find("binance-usdm").expect("a venue"), vec!["BTCUSDT".to_owned()])
    };
    let told = Arc::new(Told::default());
    let (engine, _watch) = Engine::new(config, Counter(Arc::clone(&told), 0)).expect("an engine");
    let stop = Arc::new(AtomicBool::new(false));
    let hot = thread::spawn({
        let stop = Arc::clone(&stop);
        move || engine.run(&stop)
    });
    let begin = Instant::now();
    while !told.is_over.load(Ordering::Acquire) && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    stop.store(true, Ordering::Relaxed);
    let summary = hot.join().expect("the hot thread lives").expect("it works");
    assert!(told.is_over.load(Ordering::Acquire), "{:?}", summary.unused);
    assert!(summary.markets.iter().all(|market| market.counters().gaps == 0));
    (told.allocations.load(Ordering::Relaxed), told.books.load(Ordering::Relaxed))
}

#[test]
fn a_hundred_thousand_messages_take_no_allocation() {
    for mode in Mode::ALL {
        let (allocations, books) = allocations(mode, RecordPath::Own);
        println!("{}: {allocations} allocations, {books} books", mode.name());
        assert_eq!(allocations, 0, "{}", mode.name());
        assert!(books > 1_000);
    }
}

/// The count counts: rustls keeps every record in a vector of its own.
#[test]
fn the_reference_allocates() {
    assert!(allocations(Mode::Block, RecordPath::Rustls).0 > 1_000);
}
