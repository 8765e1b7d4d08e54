//! Prints every wait over a threshold with what it was made of.
//!
//! `watch SECONDS THRESHOLD_US [PID]` (without a process: all of them).
#![allow(clippy::unwrap_used, reason = "an example stops at the first thing that is wrong")]

use std::time::{Duration, Instant};

use quietcore_bpf::{Set, Settings, Watch};
use quietcore_measure::Nanos;
use quietcore_spike::Monitor;
use quietcore_sys::Host;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let watch = numbers.get(2).map_or(Watch::All, |&pid| Watch::Process(pid as u32));
    let settings =
        Settings { sets: Set::ALL.to_vec(), ..Settings::new(watch, Nanos::from_us(numbers[1])) };
    let mut monitor = Monitor::start(&settings, &Host::live()).unwrap();
    for health in monitor.health() {
        println!("{:28} {:?}", health.program, health.state);
    }
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(numbers[0]) {
        std::thread::sleep(Duration::from_millis(50));
        for spike in monitor.spikes().unwrap() {
            assert!(spike.adds_up());
            println!("\n{} (tid {}) {}", spike.thread.comm, spike.thread.tid, spike.len_ns);
            for segment in &spike.segments {
                println!(
                    "  {:>9} {:>12} {:10} {}",
                    segment.at_ns.to_string(),
                    segment.kind.to_string(),
                    segment.len_ns.to_string(),
                    segment.by
                );
                for line in &segment.evidence {
                    println!("{:36}{line}", "");
                }
            }
            if let Some(why) = spike.incomplete {
                println!("  incomplete: {why}");
            }
        }
    }
    println!("{:?}", monitor.counts().unwrap());
}
