//! What the hot loop promises: no allocation and no system call between its first turn and its
//! last. Each promise is tested together with its opposite, so that the test can fail.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use quietcore_spike::spin::{Keep, Recorder, Window, spin};
use quietcore_sys::tsc::{self, Rate};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what the calling thread allocates.
struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KEEP: Keep = Keep { largest: 100, sampled: 100, seed: 1 };

/// A short run in which every turn counts as a gap, so that the store fills up and overflows.
fn spin_with(now: impl Fn() -> u64 + Copy, recorder: &mut Recorder) {
    let window = Window { start: 0, deadline: now() + 20_000_000, look_every: 100_000 };
    spin(now, window, &AtomicBool::new(false), recorder);
}

fn every_turn_a_gap() -> Recorder {
    Recorder::new(Rate::from_hz(2e9), 1, 0, KEEP)
}

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_loop_allocates_nothing_even_when_its_store_is_full() {
    let mut recorder = every_turn_a_gap();
    assert_eq!(allocations(|| spin_with(tsc::ticks, &mut recorder)), 0);
    assert!(recorder.gaps().omitted() > 0, "the store was not full");

    let mut recorder = every_turn_a_gap();
    let allocating = || {
        black_box(Box::new(1u8));
        tsc::ticks()
    };
    assert!(allocations(|| spin_with(allocating, &mut recorder)) > 0);
}

/// Lets the kernel kill this process at its next system call, unless that ends it.
///
/// A filter and not seccomp's strict mode, which also forbids reading the time stamp counter.
fn forbid_system_calls() -> bool {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let exit = libc::SYS_exit_group as u32;
    let mut filter = [
        // The number of the call is the first word of the data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, exit) },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the first call takes integers; `program` and its filter outlive the second one.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    }
}

/// Runs `work` in a child that must not make a system call; whether it came through.
fn without_system_calls(work: impl FnOnce()) -> bool {
    const NO_SECCOMP: i32 = 99;
    // SAFETY: the child uses memory prepared before, and only async-signal-safe calls.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let code = match forbid_system_calls() {
                true => {
                    work();
                    0
                }
                false => NO_SECCOMP,
            };
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is a valid place to write to, and the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            assert_ne!(code, Some(NO_SECCOMP), "this kernel has no seccomp filters");
            code == Some(0)
        }
    }
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn the_loop_makes_no_system_call() {
    let mut recorder = every_turn_a_gap();
    assert!(without_system_calls(|| spin_with(tsc::ticks, &mut recorder)));

    let mut recorder = every_turn_a_gap();
    let calling = || {
        // SAFETY: takes nothing.
        unsafe { libc::syscall(libc::SYS_getppid) };
        tsc::ticks()
    };
    assert!(!without_system_calls(|| spin_with(calling, &mut recorder)));
}
