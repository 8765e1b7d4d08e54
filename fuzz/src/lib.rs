//! Fuzz targets for every parser of outside bytes.
//!
//! Real inputs are mutilated, which reaches deeper than random bytes; the generator is seeded, so
//! that a failure comes again. Coverage-guided fuzzers need nightly Rust: these run anywhere, for
//! seconds in `make test`, for as long as `QUIETCORE_FUZZ_SECONDS` says by hand.
#![forbid(unsafe_code)]

mod books;
mod mutate;
mod targets;
mod tls;
mod venues;
mod websocket;

use std::time::{Duration, Instant};

pub use targets::TARGETS;

/// A parser under fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name, as a test shows it.
    pub name: &'static str,
    /// Inputs that are well-formed, to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Must return for any bytes, and hold what it asserts.
    pub run: fn(&[u8]),
}

/// Feeds a target mutilated seeds: `rounds` of them, or for `time`, whichever is longer.
pub fn fuzz(target: &Target, rounds: u64, time: Duration) -> u64 {
    let seeds = (target.seeds)();
    for seed in &seeds {
        (target.run)(seed);
    }
    let mut random = mutate::Random::new(0x5eed);
    let start = Instant::now();
    let mut round = 0;
    while round < rounds || start.elapsed() < time {
        let input = mutate::mutilate(&seeds, &mut random);
        (target.run)(&input);
        round += 1;
    }
    round
}

/// How long a target is fuzzed at least: `QUIETCORE_FUZZ_SECONDS`, or not by time.
pub fn time() -> Duration {
    let asked = std::env::var("QUIETCORE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(0))
}
