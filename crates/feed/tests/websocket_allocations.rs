//! Reading and writing frames does not allocate, once the buffers are there: counted, not assumed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use quietcore_feed::websocket::{Decoder, Incoming, Limits, Opcode, Role, encode, encode_fragment};

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

/// Messages of the market's sizes, fragments, and pings between them.
fn stream(mask: Option<[u8; 4]>) -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    let mut events = 0;
    for length in [180, 179, 1_600, 0, 13_000, 125, 126, 26_000].repeat(20) {
        encode(Opcode::Text, &vec![b'7'; length], mask, &mut bytes);
        encode_fragment(false, Opcode::Text, &vec![b'8'; length], mask, &mut bytes);
        encode(Opcode::Ping, &[9; 125], mask, &mut bytes);
        encode_fragment(true, Opcode::Continuation, "µ".as_bytes(), mask, &mut bytes);
        events += 3;
    }
    (bytes, events)
}

#[test]
fn reading_allocates_only_at_construction() {
    for (role, mask) in [(Role::Client, None), (Role::Server, Some([1, 2, 3, 4]))] {
        let (bytes, expected) = stream(mask);
        let mut decoder = Decoder::with_role(role, Limits::default());
        let mut events = 0;
        let made = allocations(|| {
            for size in [1, 3, 100, 1_024, 4_096, 16_384, usize::MAX] {
                for mut piece in bytes.chunks(size.min(bytes.len())) {
                    while decoder.next(&mut piece).is_ok_and(|incoming| incoming.is_some()) {
                        events += 1;
                    }
                }
            }
        });
        assert_eq!((made, events), (0, 7 * expected), "{role:?}");
    }
}

#[test]
fn answering_pings_allocates_nothing_more_than_the_callers_memory() {
    let (bytes, _) = stream(None);
    let mut decoder = Decoder::new(Limits::default());
    let mut out = Vec::with_capacity(1 << 10);
    let mut pongs = 0;
    let made = allocations(|| {
        let mut rest = &bytes[..];
        while let Ok(Some(incoming)) = decoder.next(&mut rest) {
            if let Incoming::Ping(payload) = incoming {
                out.clear();
                encode(Opcode::Pong, payload, [5, 6, 7, 8], &mut out);
                pongs += 1;
            }
        }
    });
    assert_eq!((made, pongs), (0, 160));
}

#[test]
fn a_length_that_is_only_announced_takes_no_memory() {
    let limits = Limits { message: 1 << 30, buffer: 1 << 10, ..Limits::default() };
    let mut decoder = Decoder::new(limits);
    let head = [&[0x82, 127], &(1u64 << 30).to_be_bytes()[..], b"only this"].concat();
    LARGEST.set(0);
    assert_eq!(decoder.next(&mut &head[..]), Ok(None));
    assert!(LARGEST.get() < 4 << 10, "{}", LARGEST.get());
}
