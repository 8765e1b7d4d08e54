//! A lock that another thread holds.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage, now};

/// How long it is held.
const HELD: u64 = 300_000;

pub const INJECTOR: Injector = Injector {
    name: "futex",
    about: "a mutex held by another thread for 300 µs at a time",
    expects: &[Kind::Lock],
    spins: false,
    threshold: Nanos::from_us(100),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let lock = Mutex::new(0u64);
    let take = || lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    thread::scope(|scope| {
        stage.helper(scope, "h", |log| {
            while !stage.over() {
                stage.pause(3_000_000);
                let mut held = take();
                log.causing(|| {
                    let begin = now();
                    while now() - begin < HELD {}
                });
                *held += 1;
            }
        })?;
        while victim.goes_on() {
            thread::sleep(Duration::from_micros(100));
            let start = now();
            *take() += 1;
            victim.took_since(start);
        }
        Ok(())
    })
}
