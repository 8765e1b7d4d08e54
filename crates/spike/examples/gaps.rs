//! Spins and says what every gap was made of: `gaps CPU SECONDS THRESHOLD_NS`.
#![allow(clippy::unwrap_used, reason = "an example stops at the first thing that is wrong")]

use std::collections::BTreeMap;
use std::time::Duration;

use quietcore_bpf::{Set, Settings, Watch};
use quietcore_measure::{Kind, Nanos, Thread};
use quietcore_spike::{Monitor, Window};
use quietcore_sys::Host;
use quietcore_sys::clock::KernelClock;
use quietcore_sys::sched;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let (cpu, seconds, threshold) = (numbers[0], numbers[1], numbers[2]);
    let (sender, gaps) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        sched::place(sched::CALLER, &[cpu as usize].into_iter().collect()).unwrap();
        let tid = sched::thread_id();
        std::thread::sleep(Duration::from_millis(700));
        let end = KernelClock::Monotonic.now() + seconds * 1_000_000_000;
        let mut before = KernelClock::Monotonic.now();
        while before < end {
            let (start, now) = (before, KernelClock::Monotonic.now());
            before = now;
            if now - start >= threshold {
                sender.send((tid, start, now)).unwrap();
                before = KernelClock::Monotonic.now();
            }
        }
    });
    let settings = Settings {
        sets: Set::ALL.into_iter().filter(|set| *set != Set::Syscall).collect(),
        slots: 1 << 16,
        ..Settings::new(Watch::All, Nanos::from_secs(1))
    };
    let monitor = Monitor::start(&settings, &Host::live()).unwrap();
    let mut kinds: BTreeMap<Kind, (u64, u64, u64)> = BTreeMap::new();
    let mut spent = Duration::ZERO;
    let mut count = 0;
    for (n, (tid, start_ns, end_ns)) in gaps.into_iter().enumerate() {
        count = n + 1;
        std::thread::sleep(Duration::from_micros(200));
        let thread = Thread { tid: tid as u32, pid: std::process::id(), comm: "spinner".into() };
        let cpu = cpu as u32;
        let window = Window { thread, start_ns, end_ns, cpu, spins: true, gaps: None };
        let begin = std::time::Instant::now();
        let spike = monitor.window(&window, Vec::new());
        spent += begin.elapsed();
        assert!(spike.adds_up());
        let named = kinds.entry(spike.kind()).or_default();
        named.0 += 1;
        for segment in &spike.segments {
            let kind = kinds.entry(segment.kind).or_default();
            kind.1 += 1;
            kind.2 += segment.len_ns.0;
        }
        let (first, last) = (&spike.segments[0], &spike.segments[spike.segments.len() - 1]);
        println!("edges {} {} {}", first.len_ns.0, first.kind, last.len_ns.0);
        if n % 20 == 0 || matches!(spike.kind(), Kind::Unexplained) {
            println!("\ngap {n} {} {}", spike.kind(), spike.len_ns);
            for segment in &spike.segments {
                println!(
                    "  {:>9} {:>16} {:10} {}",
                    segment.at_ns.to_string(),
                    segment.kind.to_string(),
                    segment.len_ns.to_string(),
                    segment.by
                );
                for line in &segment.evidence {
                    println!("{:42}{line}", "");
                }
            }
            if let Some(why) = spike.incomplete {
                println!("  incomplete: {why}");
            }
        }
    }
    println!("{} gaps, {:?} each", count, spent / count.max(1) as u32);
    for (kind, (named, segments, ns)) in kinds {
        println!("{kind:20} names {named:6}, {segments:6} segments, {}", Nanos(ns));
    }
}
