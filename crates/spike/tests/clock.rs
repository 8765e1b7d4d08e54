//! What a clock that changes takes.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use quietcore_bpf::{Event, Set, What};
use quietcore_measure::{Kind, Spike, Thread};
use quietcore_spike::{Kallsyms, Seen, Window, attribute};

const CPU: u32 = 1;

fn explain(spins: bool, len: u64, events: &[Event]) -> Spike {
    let thread = Thread { tid: 7, pid: 7, comm: "victim".into() };
    let (start_ns, end_ns) = (1_000_000, 1_000_000 + len);
    let window = Window { thread, start_ns, end_ns, cpu: CPU, spins, gaps: None };
    let seen = Seen { events: events.to_vec(), sets: Set::ALL.to_vec(), ..Seen::default() };
    let spike = attribute(&window, &seen, &Kallsyms::default());
    assert!(spike.adds_up(), "{spike:#?}");
    spike
}

fn parts(spike: &Spike) -> Vec<(u64, u64, Kind)> {
    spike.segments.iter().map(|s| (s.at_ns.0, s.len_ns.0, s.kind)).collect()
}

/// Recorded on another CPU, whose governor is in charge of both.
fn change(at: u64, of: u32, before: u32, khz: u32) -> Event {
    Event { ts: 1_000_000 + at, cpu: 0, what: What::Frequency { of, khz, before: Some(before) } }
}

#[test]
fn a_silent_gap_with_a_change_in_it_is_the_clock_s() {
    let spike = explain(true, 100_000, &[change(90_000, CPU, 3_400_000, 800_000)]);
    assert_eq!(parts(&spike), [(0, 100_000, Kind::Frequency)]);
    let evidence = spike.segments[0].evidence.concat();
    assert!(evidence.contains("3400 MHz, then 800 MHz"), "{evidence}");
    let other = explain(true, 100_000, &[change(90_000, 2, 3_400_000, 800_000)]);
    assert_eq!(parts(&other), [(0, 100_000, Kind::HostOrFirmware)], "of another CPU");
}

#[test]
fn a_stop_that_is_longer_than_a_change_is_not_the_clock_s() {
    let spike = explain(true, 200_000, &[change(90_000, CPU, 3_400_000, 800_000)]);
    assert_eq!(parts(&spike), [(0, 200_000, Kind::HostOrFirmware)]);
    assert!(spike.segments[0].evidence.concat().contains("cpu_frequency"), "{spike:#?}");
}

#[test]
fn work_takes_longer_after_the_clock_fell_and_until_it_rises() {
    let fell = change(20_000, CPU, 3_000_000, 1_000_000);
    let rose = change(80_000, CPU, 1_000_000, 3_000_000);
    let expected =
        [(0, 40_000, Kind::User), (40_000, 40_000, Kind::Frequency), (80_000, 20_000, Kind::User)];
    assert_eq!(parts(&explain(false, 100_000, &[rose, fell])), expected, "two thirds of 60 µs");
    assert_eq!(parts(&explain(false, 100_000, &[rose])), [(0, 100_000, Kind::User)]);
}

#[test]
fn a_change_from_nobody_knows_what_says_nothing() {
    let what = What::Frequency { of: CPU, khz: 800_000, before: None };
    let unknown = Event { ts: 1_050_000, cpu: CPU, what };
    assert_eq!(parts(&explain(false, 100_000, &[unknown])), [(0, 100_000, Kind::User)]);
}
