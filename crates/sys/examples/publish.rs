//! Publishes what it does for `quietcore explain --pid PID --spans`: work that now and then sleeps.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use quietcore_sys::clock::KernelClock;
use quietcore_sys::live::Segment;

const WORK: u32 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let segment = Segment::create(1, 4096)?;
    let mut recorder = segment.recorder().ok_or("no ring is free")?;
    println!("{}", std::process::id());
    let begin = Instant::now();
    for round in 0u64.. {
        let start = KernelClock::Monotonic.now();
        for n in 0..20_000 {
            black_box(n);
        }
        if round % 500 == 499 {
            thread::sleep(Duration::from_millis(2));
        }
        recorder.record(WORK, start, KernelClock::Monotonic.now());
        if begin.elapsed() > Duration::from_secs(60) {
            break;
        }
    }
    Ok(())
}
