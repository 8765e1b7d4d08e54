//! The lock of the allocator's arena, held by a thread that gives memory back.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;
use quietcore_sys::selftest::{share_one_arena, trim_heap};

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage, now};

/// Too large for a thread's own cache, too small for a map of its own.
const BYTES: usize = 20_000;

/// How many such pieces lie about, every other one freed.
const PIECES: usize = 2_000;

pub const INJECTOR: Injector = Injector {
    name: "malloc",
    about: "the lock of the allocator's arena, held while another thread trims the heap",
    expects: &[Kind::Lock],
    spins: false,
    threshold: Nanos::from_us(100),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    if !share_one_arena() {
        return Err(NotHere("this C library's allocator has no arenas".into()));
    }
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    thread::scope(|scope| {
        stage.helper(scope, "m", |log| {
            while !stage.over() {
                let mut pieces: Vec<_> = (0..PIECES).map(|_| Some(vec![1u8; BYTES])).collect();
                pieces.iter_mut().step_by(2).for_each(|piece| *piece = None);
                // Sorts what was freed, which the victim would have to do otherwise.
                black_box(Vec::<u8>::with_capacity(BYTES * 2));
                stage.pause(5_000_000);
                log.causing(trim_heap);
            }
        })?;
        while victim.goes_on() {
            thread::sleep(Duration::from_micros(50));
            let start = now();
            black_box(Vec::<u8>::with_capacity(BYTES));
            victim.took_since(start);
        }
        Ok(())
    })
}
