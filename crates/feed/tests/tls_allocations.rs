//! No record costs an allocation: counted over 100,000 of them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use quietcore_feed::tls::{RecordPath, Tls};
use rustls::SupportedCipherSuite;

use peer::{Identity, SUITES, Server, connect};

#[path = "tls/peer.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the other tests use the rest of it")]
mod peer;

const RECORDS: usize = 100_000;

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

/// Reads a stream of records in pieces of this size, answering every hundredth with a record of its
/// own; how many records there were, and how many allocations they took.
fn read(tls: &mut Tls, mut stream: &[u8], piece: usize) -> (usize, u64) {
    let before = ALLOCATIONS.get();
    let mut records = 0;
    while !stream.is_empty() {
        let space = tls.space();
        let count = piece.min(stream.len()).min(space.len());
        space[..count].copy_from_slice(&stream[..count]);
        tls.filled(count);
        stream = &stream[count..];
        while let Some(plain) = tls.next().expect("good records") {
            assert!(!plain.is_empty());
            records += 1;
            if records % 100 == 0 {
                tls.send(b"pong").expect("a connection that lives");
                tls.outgoing().clear();
            }
        }
    }
    (records, ALLOCATIONS.get() - before)
}

/// Allocations for `count` records of the sizes that a feed has, after a first thousand.
fn allocations(suite: SupportedCipherSuite, path: RecordPath, piece: usize, count: usize) -> u64 {
    let identity = Identity::new("localhost", |_| ());
    let mut server = Server::new(identity.server(&[suite]));
    let mut tls = connect(&mut server, identity.client(&SUITES), path).expect("a handshake");
    let sizes = [179, 1_597, 180, 181, 13_000, 9, 200];
    let plain = [7; 13_000];
    let mut total = (0, 0);
    let mut warm = false;
    while total.0 < count {
        for round in 0..1_000 {
            server.send(&plain[..sizes[round % sizes.len()]]);
        }
        let stream: Vec<u8> = server.to_client.drain(..).collect();
        let (records, calls) = read(&mut tls, &stream, piece);
        assert_eq!(records, 1_000);
        if warm {
            total = (total.0 + records, total.1 + calls);
        }
        warm = true;
    }
    total.1
}

#[test]
fn a_hundred_thousand_records_take_no_allocation() {
    // TLS 1.3 and 1.2; reads as large as they come, and a segment at a time.
    assert_eq!(allocations(SUITES[0], RecordPath::Own, usize::MAX, RECORDS), 0);
    assert_eq!(allocations(SUITES[3], RecordPath::Own, 1_448, RECORDS), 0);
}

/// The count counts: rustls keeps every record in a vector of its own.
#[test]
fn the_reference_allocates() {
    assert!(allocations(SUITES[0], RecordPath::Rustls, usize::MAX, 5_000) >= 5_000);
}
