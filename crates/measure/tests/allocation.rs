//! Hot paths do not allocate: counted, not assumed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use quietcore_measure::{
    Gap, GapStore, Hist, HistConfig, Nanos, Window, WindowConfig, decode_v2_bytes,
};

/// The system's allocator, counting what each thread asks of it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn count(size: usize) {
    // At the end of a thread there is nothing left to count into.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` or `realloc` below, which are the system's.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
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

#[test]
fn the_counter_counts() {
    let mut kept = Vec::new();
    assert!(allocations(|| kept = vec![1u8; 4096]) > 0);
    assert_eq!(kept.len(), 4096);
}

#[test]
fn a_histogram_allocates_only_at_construction() {
    let mut hist = Hist::with_edges(HistConfig::default(), &[1_000, 1_000_000]);
    let mut other = hist.clone();
    let made = allocations(|| {
        for exponent in 0..64 {
            hist.record(1 << exponent);
            other.record_n(3 << exponent, 1_000);
        }
        hist.merge(&other).unwrap();
        assert_eq!(hist.value_at(1.0), hist.max());
        assert!(hist.buckets().count() > 60);
        other.clear();
    });
    assert_eq!(made, 0);
}

#[test]
fn a_gap_store_allocates_only_at_construction() {
    let mut store = GapStore::new(100, 100, 1);
    let made = allocations(|| {
        for i in 0..100_000u64 {
            store.push(Gap { start_ns: i, len_ns: Nanos(i.wrapping_mul(7_919) % 10_007) });
        }
    });
    assert_eq!(made, 0);
    assert_eq!(store.omitted(), 99_800);
}

#[test]
fn a_window_records_without_allocating() {
    let mut window = Window::new(WindowConfig::default());
    let made = allocations(|| {
        for second in 0..300 {
            window.record(Nanos::from_secs(second), second);
        }
    });
    assert_eq!(made, 0);
}

/// A histogram of two digits up to 1,000,000 that says its counts take 4 GiB.
fn lying(payload: &[u8]) -> Vec<u8> {
    let mut bytes = 0x1c84_9313u32.to_be_bytes().to_vec();
    bytes.extend(u32::MAX.to_be_bytes());
    bytes.extend(0u32.to_be_bytes());
    bytes.extend(2u32.to_be_bytes());
    bytes.extend(1u64.to_be_bytes());
    bytes.extend(1_000_000u64.to_be_bytes());
    bytes.extend(1f64.to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn decoding_allocates_for_the_range_and_not_for_what_a_stranger_says() {
    let zeros = vec![0; 8 << 20];
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packed, &lying(&zeros)).unwrap();
    let packed = packed.finish().unwrap();
    let mut bomb = 0x1c84_9314u32.to_be_bytes().to_vec();
    bomb.extend((packed.len() as u32).to_be_bytes());
    bomb.extend(packed);
    let liar = lying(&[2, 2]);

    LARGEST.set(0);
    assert!(decode_v2_bytes(&liar).is_err());
    assert!(decode_v2_bytes(&bomb).is_err());
    let largest = LARGEST.get();
    // The unpacker's window and the histogram are some ten thousand bytes each.
    assert!((1_000..100_000).contains(&largest), "{largest}");
}
