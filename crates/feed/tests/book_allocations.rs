//! What happens for every message asks for no memory: counted, not assumed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use quietcore_feed::book::{Book, BookConfig};
use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Depth, Level, Levels, Quote, Side};
use quietcore_feed::sync::{Market, MarketConfig, Outcome};
use quietcore_feed::venues::Rule;

/// The system's allocator, counting what each thread asks of it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // At the end of a thread there is nothing left to count into.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` or `realloc` below, which are the system's.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`; the caller's promises about `size` are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

const TICK: i64 = 10_000_000;

fn level(ticks: i64, quantity: i64) -> Level {
    Level { price: Fixed(ticks * TICK), quantity: Fixed(quantity) }
}

fn whole() -> Levels {
    Levels {
        bids: (1..1_000).map(|n| level(618_000 - n, n)).collect(),
        asks: (1..1_000).map(|n| level(618_000 + n, n)).collect(),
    }
}

/// Some levels within the window, some of them taken away.
fn change(random: u64) -> Levels {
    let mut levels = Levels::default();
    for n in 0..40u64 {
        let mixed = (random * 40 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let quantity = (mixed % 5) as i64;
        let distance = (mixed / 5 % 20_000) as i64 + 1;
        levels.bids.push(level(618_000 - distance, quantity));
        levels.asks.push(level(618_000 + distance, quantity));
    }
    levels
}

#[test]
fn the_counter_counts() {
    let mut kept = Vec::new();
    assert!(allocations(|| kept = vec![1u8; 4096]) > 0);
    assert_eq!(kept.len(), 4096);
}

#[test]
fn a_book_changes_without_allocating() {
    let mut book = Book::new(BookConfig::default());
    book.load(&whole());
    let changes: Vec<_> = (0..1_000).map(change).collect();
    let mut seen = 0;
    let made = allocations(|| {
        for change in &changes {
            change.bids.iter().for_each(|level| book.apply(Side::Bid, *level));
            book.apply_all(Side::Ask, &change.asks);
            seen += book.levels(Side::Bid).take(25).count();
            seen += usize::from(book.best(Side::Ask).is_some() && !book.is_off_centre());
        }
    });
    assert_eq!((made, seen), (0, 26_000));
}

#[test]
fn a_market_takes_changes_and_quotes_without_allocating() {
    let mut market = Market::new(Rule::Bridge, MarketConfig::default());
    let changes: Vec<_> = (0..2_000).map(change).collect();
    let depth = |n: u64| Depth {
        first: n * 10 + 1,
        last: n * 10 + 10,
        previous: Some(n * 10),
        ..Depth::default()
    };
    // More than there is room for: the oldest are pushed out.
    let made = allocations(|| {
        for (n, change) in changes[..1_000].iter().enumerate() {
            assert_eq!(market.on_depth(&depth(n as u64), change), Outcome::Buffered);
        }
    });
    assert_eq!(made, 0, "while it waits");
    let snapshot = Depth { is_snapshot: true, first: 9_995, last: 9_995, ..Depth::default() };
    assert_eq!(market.on_depth(&snapshot, &whole()), Outcome::Applied);
    let made = allocations(|| {
        for (n, change) in changes.iter().enumerate().skip(1_000) {
            for update in 1..=5 {
                let update = n as u64 * 10 + update * 2;
                market.on_quote(&Quote { update, ..Quote::default() });
            }
            assert_eq!(market.on_depth(&depth(n as u64), change), Outcome::Applied);
            assert_eq!(market.on_depth(&depth(n as u64), change), Outcome::Stale);
        }
        // A gap, and waiting again.
        assert_eq!(market.on_depth(&depth(5_000), &changes[0]), Outcome::Gap);
        assert_eq!(market.on_depth(&depth(5_001), &changes[1]), Outcome::Buffered);
    });
    assert_eq!(made, 0, "while it is live");
    assert_eq!(market.counters().bbo_checked, 1_000);
}

#[test]
fn checksums_are_made_without_allocating() {
    let mut market = Market::new(Rule::InStream, MarketConfig::default());
    let snapshot = Depth { is_snapshot: true, first: 1, last: 1, ..Depth::default() };
    assert_eq!(market.on_depth(&snapshot, &whole()), Outcome::Applied);
    let change = change(1);
    let wrong = Depth { first: 2, last: 2, previous: Some(1), checksum: Some(7), ..snapshot };
    let wrong = Depth { is_snapshot: false, ..wrong };
    // Also the search for the way in which numbers are written.
    let made = allocations(|| {
        assert_eq!(market.on_depth(&wrong, &change), Outcome::ChecksumMismatch);
    });
    assert_eq!(made, 0);
}
