//! No message costs the hot thread an allocation, from the socket to the book: counted over 100,000
//! of them, TLS included.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quietcore_feed::engine::{Address, Config, Engine, Handler, Mode};
use quietcore_feed::market::{Quote, Trade};
use quietcore_feed::publish::Publisher;
use quietcore_feed::server::{
    Begin, Config as VenueConfig, Generator, Pace, Settings, Source, Venue,
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
    let symbols = ["BTCUSDT", "ETHUSDT"].map(str::to_owned).to_vec();
    let settings = Settings { seed: 11, symbols: symbols.clone(), ..Settings::default() };
    let market = Source::Generated(Box::new(Generator::new(settings)));
    let venue = Venue::start(market, config).expect("a venue");
    let address = venue.address();
    let config = Config {
        at: Some(Address { host: address.ip().to_string(), port: address.port() }),
        roots: Roots::File(venue.roots_path().expect("roots").to_owned()),
        mode,
        record_path,
        publish: false,
        ..Config::new(find("binance-usdm").expect("a venue"), symbols)
    };
    let told = Arc::new(Told::default());
    let publisher = Publisher::new(&config.symbols).expect("shared memory");
    let handler = (publisher, Counter(Arc::clone(&told), 0));
    let (engine, _watch) = Engine::new(config, handler).expect("an engine");
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
    // The count counts: rustls keeps every record in a vector of its own. In the same test, because
    // a process has one publisher.
    assert!(allocations(Mode::Block, RecordPath::Rustls).0 > 1_000);
}
