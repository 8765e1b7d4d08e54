//! What the hypervisor says it took, and what of that a stretch of time is made of.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use quietcore_bpf::{
    Event, Name, Set, Settings, Task, Timeline, Vector, Wait, WaitFlags, Watch, What,
};
use quietcore_facts::counters::CpuTimes;
use quietcore_measure::{Kind, Nanos, Spike, Thread};
use quietcore_spike::attribute::Gaps;
use quietcore_spike::{Kallsyms, Seen, Window, attribute};
use quietcore_sys::Host;

const VICTIM: u32 = 7;
const CPU: u32 = 1;

fn window(start_ns: u64, end_ns: u64, gaps: Option<&[(u64, u64)]>) -> Window {
    let thread = Thread { tid: VICTIM, pid: VICTIM, comm: "victim".into() };
    let gaps = gaps.map(|gaps| Arc::new(Gaps::new(0, u64::MAX, gaps.to_vec())));
    Window { thread, start_ns, end_ns, cpu: CPU, spins: gaps.is_some(), gaps }
}

fn explain(window: &Window, events: Vec<Event>, waits: Vec<Wait>) -> Spike {
    let sets = Set::ALL.to_vec();
    let seen = Seen { events, waits, sets, hears_of_steal: true, ..Seen::default() };
    let spike = attribute(window, &seen, &Kallsyms::default());
    assert!(spike.adds_up(), "{spike:#?}");
    spike
}

fn parts(spike: &Spike) -> Vec<(u64, u64, Kind)> {
    spike.segments.iter().map(|s| (s.at_ns.0, s.len_ns.0, s.kind)).collect()
}

fn on(cpu: u32, ts: u64, what: What) -> Event {
    Event { ts, cpu, what }
}

fn steal(since: u64, ts: u64, ns: u64) -> Event {
    on(CPU, ts, What::Steal { ns, since })
}

fn tick(since: u64, ts: u64) -> Event {
    on(CPU, ts, What::Vector { vector: Vector::LocalTimer, since })
}

#[test]
fn a_gap_is_the_hypervisor_s_as_far_as_it_says_so() {
    let gap = window(100_000, 1_100_000, Some(&[(100_000, 1_100_000)]));
    let whole = explain(&gap, vec![steal(50_000, 2_000_000, 1_000_000)], vec![]);
    assert_eq!(parts(&whole), [(0, 1_000_000, Kind::Steal)]);
    let part = explain(&gap, vec![steal(50_000, 2_000_000, 600_000)], vec![]);
    let expected = [(0, 400_000, Kind::HostOrFirmware), (400_000, 600_000, Kind::Steal)];
    assert_eq!(parts(&part), expected);
}

#[test]
fn an_interrupt_that_waited_for_the_cpu_is_not_what_took_it() {
    let gap = window(100_000, 310_000, Some(&[(100_000, 310_000)]));
    let events = vec![steal(50_000, 300_000, 195_000), tick(300_000, 308_000)];
    let expected =
        [(0, 5_000, Kind::Timer), (5_000, 195_000, Kind::Steal), (200_000, 10_000, Kind::Timer)];
    assert_eq!(parts(&explain(&gap, events, vec![])), expected);
}

#[test]
fn an_interrupt_that_was_due_when_the_cpu_was_taken_has_what_the_hypervisor_did_not() {
    let gap = window(100_000, 360_000, Some(&[(100_000, 360_000)]));
    let due = What::HrTimer { function: 0x1000, due: Some(100_500) };
    let events =
        vec![steal(50_000, 350_000, 210_000), on(CPU, 351_000, due), tick(350_000, 358_000)];
    let expected =
        [(0, 40_000, Kind::Timer), (40_000, 210_000, Kind::Steal), (250_000, 10_000, Kind::Timer)];
    assert_eq!(parts(&explain(&gap, events, vec![])), expected);
}

#[test]
fn of_several_gaps_none_is_said_to_be_what_another_may_be() {
    let gaps = [(100_000, 150_000), (400_000, 900_000)];
    let told = vec![steal(50_000, 2_000_000, 500_000)];
    let first = explain(&window(100_000, 150_000, Some(&gaps)), told.clone(), vec![]);
    assert_eq!(parts(&first), [(0, 50_000, Kind::HostOrFirmware)]);
    let second = explain(&window(400_000, 900_000, Some(&gaps)), told, vec![]);
    let expected = [(0, 50_000, Kind::HostOrFirmware), (50_000, 450_000, Kind::Steal)];
    assert_eq!(parts(&second), expected, "at least so much of it");
}

#[test]
fn of_a_thread_that_does_not_spin_only_what_cannot_have_been_elsewhere_counts() {
    let span = window(100_000, 1_100_000, None);
    let told = |ns| explain(&span, vec![steal(50_000, 1_200_000, ns)], vec![]);
    assert_eq!(parts(&told(150_000)), [(0, 1_000_000, Kind::User)]);
    let expected = [(0, 750_000, Kind::User), (750_000, 250_000, Kind::Steal)];
    assert_eq!(parts(&told(400_000)), expected);
}

/// A wait that ended at 1.4 ms.
fn wait(waking: Option<u64>, flags: WaitFlags) -> Wait {
    let task = |tid| Task { tid, tgid: tid, comm: Name::from("other") };
    Wait {
        out_ts: 0,
        waking_ts: waking,
        wakeup_ts: waking.map(|waking| waking + 1_000),
        in_ts: 1_400_000,
        tid: VICTIM,
        tgid: VICTIM,
        comm: "victim".into(),
        prio: 120,
        out_cpu: CPU,
        in_cpu: CPU,
        state: 1,
        flags,
        next: task(9),
        waker: Some(task(30)),
        wakeup_cpu: CPU,
        ..Wait::default()
    }
}

fn stolen(spike: &Spike) -> Vec<(u64, u64, Kind)> {
    parts(spike).into_iter().filter(|part| part.2 == Kind::Steal).collect()
}

/// A thread is woken on an idle CPU, which the hypervisor lets wait. The CPU was asked last when it fell
/// asleep, or a little before.
#[test]
fn a_cpu_that_is_woken_late_was_taken() {
    for (asked, expected) in [(10_000, (1_040_000, 350_000)), (8_000, (1_042_000, 348_000))] {
        let events = vec![
            on(CPU, 10_000, What::Idle { state: Some(1) }),
            steal(asked, 1_390_000, 350_000),
            on(CPU, 1_390_000, What::Idle { state: None }),
        ];
        let woken = wait(Some(1_000_000), WaitFlags::default());
        let spike = explain(&window(0, 1_400_000, None), events, vec![woken]);
        assert_eq!(stolen(&spike), [(expected.0, expected.1, Kind::Steal)], "{spike:#?}");
        assert_eq!(spike.segments[0].kind, Kind::Blocked, "who slept had no use for the CPU");
    }
}

#[test]
fn a_nap_before_the_work_is_no_alibi() {
    let events = vec![
        on(CPU, 10_000, What::Idle { state: Some(1) }),
        on(CPU, 13_000, What::Idle { state: None }),
        steal(10_000, 3_000_000, 1_000_000),
    ];
    let span = window(1_800_000, 3_000_000, None);
    assert_eq!(stolen(&explain(&span, events, vec![])), [], "it may have been before the span");
}

#[test]
fn who_is_throttled_has_no_use_for_the_cpu() {
    let flags = WaitFlags { preempted: true, throttled: true, ..WaitFlags::default() };
    let events = vec![steal(100_000, 1_300_000, 900_000)];
    let spike = explain(&window(0, 1_400_000, None), events, vec![wait(None, flags)]);
    assert_eq!(parts(&spike), [(0, 1_400_000, Kind::CpuQuota)]);
}

#[test]
fn a_hypervisor_that_took_nothing_is_evidence() {
    let gap = window(100_000, 1_100_000, Some(&[(100_000, 1_100_000)]));
    let later = tick(1_500_000, 1_501_000);
    let line = "the hypervisor says it took nothing of CPU 1";
    let says =
        |events| explain(&gap, events, vec![]).segments[0].evidence.contains(&line.to_owned());
    assert!(says(vec![later]));
    assert!(!says(vec![]), "it has not spoken yet");
    assert!(!says(vec![steal(50_000, 2_000_000, 600_000)]));
}

/// The unit of /proc/stat, in nanoseconds.
const UNIT: u64 = 10_000_000;

/// Nanoseconds that the kernel says its host took of all CPUs.
fn accounted(host: &Host) -> u64 {
    let times = CpuTimes::parse(&host.read("/proc/stat").unwrap());
    times.iter().map(|cpu| cpu.steal * UNIT).sum()
}

#[test]
#[ignore = "needs root: loads BPF programs"]
fn root_what_the_hypervisor_takes_adds_up_to_what_the_kernel_accounts() {
    let host = Host::live();
    let watch = Watch::Tasks(Vec::new());
    let mut timeline = Timeline::start(&Settings::new(watch, Nanos::from_secs(3_600))).unwrap();
    let cpus = timeline.cpus();
    let mut last: Vec<_> = (0..cpus).map(|cpu| timeline.recorded(cpu)).collect();
    let mut told = 0;
    let before = accounted(&host);
    let start = Instant::now();
    // Until there is something to compare, if this host is one that takes.
    let enough = |host| accounted(host) - before > 10 * UNIT;
    while start.elapsed() < Duration::from_secs(2)
        || start.elapsed() < Duration::from_secs(8) && !enough(&host)
    {
        std::thread::sleep(Duration::from_millis(20));
        timeline.waits().unwrap();
        for (cpu, last) in (0..).zip(&mut last) {
            let batch = timeline.events_after(cpu, *last);
            assert_eq!(batch.lost, 0);
            *last = batch.last;
            for event in batch.events {
                if let What::Steal { ns, since } = event.what {
                    assert!(timeline.hears_of_steal(cpu) && since <= event.ts, "{event:?}");
                    told += ns;
                }
            }
        }
    }
    let after = accounted(&host);
    if after > 0 {
        assert!((0..cpus).any(|cpu| timeline.hears_of_steal(cpu)), "the kernel hears of it");
    }
    let kernel = after - before;
    // Both see the same clock; each CPU's count is rounded, and what an idle CPU was refused is
    // noticed at its next interrupt.
    let slack = u64::from(cpus) * 2 * UNIT + kernel / 10;
    assert!(told.abs_diff(kernel) <= slack, "{told} recorded, {kernel} accounted");
}
