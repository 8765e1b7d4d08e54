//! Steals a CPU for a known time at known moments, for testing whether anybody notices.
//!
//! `stall --cpu N --count K [--burn-us 20] [--seed S]` runs at SCHED_FIFO on CPU N, wakes up at
//! random moments, and burns either the given time or none, in random order. A burn of nothing
//! still makes a gap, of the switches to this program and back: what a gap of 20 µs is longer
//! than that is what the burn took. Prints a line `kind start end` in counter ticks for each.
//! Needs root or CAP_SYS_NICE.

use std::error::Error;
use std::io::Write;

use quietcore_measure::CpuSet;
use quietcore_sys::clock::{self, KernelClock};
use quietcore_sys::sched::{self, Class};
use quietcore_sys::tsc::{self, Clock};

/// Between two stalls lie 0.3 to 1.3 ms: far enough apart never to run into one another.
const LEAST_PAUSE_NS: u64 = 300_000;
const MORE_PAUSE_NS: u64 = 1_000_000;

/// xorshift, which is random enough for this.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// A stolen piece of time, in ticks of the counter.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Whether time was burnt, or none.
    pub burnt: bool,
    /// When the stall began, seen from inside.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
}

/// Steals CPU `cpu` from whoever runs there `count` times, half of them for `burn_ns`.
pub fn steal(
    cpu: usize,
    count: usize,
    burn_ns: u64,
    seed: u64,
) -> Result<Vec<Stall>, Box<dyn Error + Send + Sync>> {
    let mut random = Random(seed | 1);
    let only: CpuSet = [cpu].into_iter().collect();
    let burn = Clock::start(&only).rate().ticks(burn_ns);
    sched::place(sched::CALLER, &only)?;
    clock::set_timer_slack(1)?;
    sched::set_class(sched::CALLER, Class::Fifo { priority: 50 })?;

    let mut log = Vec::with_capacity(count);
    let mut next = KernelClock::Monotonic.now();
    while log.len() < count {
        next += LEAST_PAUSE_NS + random.below(MORE_PAUSE_NS);
        clock::sleep_until(next)?;
        let begin = tsc::ticks_ordered();
        let length = if random.below(2) == 0 { burn } else { 0 };
        let mut end = begin;
        while end.wrapping_sub(begin) < length {
            end = tsc::ticks();
        }
        log.push(Stall { burnt: length > 0, begin, end });
        // Woken late by more than a pause, the next one would follow at once.
        next = next.max(KernelClock::Monotonic.now());
    }
    Ok(log)
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let number = |name: &str, default: Option<u64>| -> Result<u64, String> {
        match std::env::args().skip_while(|arg| arg != name).nth(1) {
            Some(text) => text.parse().map_err(|e| format!("{name} {text}: {e}")),
            None => default.ok_or(format!("{name} is missing")),
        }
    };
    let cpu = number("--cpu", None)? as usize;
    let count = number("--count", None)? as usize;
    let burn_ns = number("--burn-us", Some(20))? * 1_000;
    let stalls = steal(cpu, count, burn_ns, number("--seed", Some(1))?)?;
    let mut out = std::io::stdout().lock();
    for Stall { burnt, begin, end } in stalls {
        writeln!(out, "{} {begin} {end}", if burnt { "burn" } else { "none" })?;
    }
    Ok(())
}
