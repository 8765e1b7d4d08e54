//! Publishing a span allocates nothing and calls nobody: counted and forbidden, not assumed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use quietcore_sys::live::{Reader, Segment};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` above, which is the system's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_span_is_recorded_without_allocating_and_where_every_system_call_is_deadly() {
    let segment = Segment::create(1, 64).unwrap();
    let mut recorder = segment.recorder().unwrap();
    let mut reader = Reader::open(std::process::id()).unwrap();
    let before = ALLOCATIONS.get();
    (0..100).for_each(|n| recorder.record(1, n, n + 1));
    assert_eq!(ALLOCATIONS.get(), before);

    // SAFETY: the child only writes memory that is its own or shared, and exits by itself.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: from here on only read, write, exit and sigreturn are allowed; anything else ends
        // the child by SIGKILL.
        unsafe {
            if libc::prctl(libc::PR_SET_SECCOMP, 1, 0, 0, 0) != 0 {
                libc::_exit(2);
            }
            (100..200).for_each(|n| recorder.record(2, n, n + 1));
            libc::syscall(libc::SYS_exit, 0);
        }
    }
    let mut status = 0;
    // SAFETY: it waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");

    // The child wrote into the same memory: 64 of its 100 are left, and 136 are not.
    let spans = reader.spans().unwrap();
    assert_eq!((spans.len(), reader.missed()), (64, 136));
    assert!(spans.iter().all(|span| span.kind == 2));
}
