//! Each rule of attribution, as a little recording and what it must become.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use quietcore_bpf::{Event, Name, Set, Task, Vector, Wait, WaitFlags, What};
use quietcore_measure::{Kind, Spike, Thread};
use quietcore_spike::attribute::sleeps_in;
use quietcore_spike::{Kallsyms, Seen, Window, attribute};

const VICTIM: u32 = 7;
const CPU: u32 = 1;
const NORMAL: u16 = 120;

/// A segment: where it begins, how long it is, what it is, by whom.
type Part<'a> = (u64, u64, Kind, &'a str);

fn kernel() -> Kallsyms {
    let names = ["tick_nohz_handler", "hrtimer_wakeup", "futex_wait", "do_nanosleep"];
    let line = |(i, name): (usize, &&str)| format!("{:x} T {name}\n", 0x1000 * (i + 1));
    Kallsyms::parse(&names.iter().enumerate().map(line).collect::<String>())
}
const TICK: u64 = 0x1000;
const HRTIMER_WAKEUP: u64 = 0x2000;
const FUTEX_WAIT: u64 = 0x3000;
const DO_NANOSLEEP: u64 = 0x4000;

fn window(start_ns: u64, end_ns: u64, spins: bool) -> Window {
    let thread = Thread { tid: VICTIM, pid: VICTIM, comm: "victim".into() };
    Window { thread, start_ns, end_ns, cpu: CPU, spins, gaps: None }
}

fn on(cpu: u32, ts: u64, what: What) -> Event {
    Event { ts, cpu, what }
}

fn switch(ts: u64, from: u32, state: u16, to: u32, prio: u16) -> Event {
    let comm = Name::from(format!("t{to}").as_str());
    on(CPU, ts, What::Switch { from, state, preempt: false, to, tgid: to, prio, comm })
}

fn vector(vector: Vector, since: u64, ts: u64) -> Event {
    on(CPU, ts, What::Vector { vector, since })
}

fn wait(out_ts: u64, waking: Option<u64>, wakeup: Option<u64>, in_ts: u64) -> Wait {
    let task = |tid, comm: &str| Task { tid, tgid: tid, comm: comm.into() };
    Wait {
        out_ts,
        waking_ts: waking,
        wakeup_ts: wakeup,
        in_ts,
        tid: VICTIM,
        tgid: VICTIM,
        comm: "victim".into(),
        prio: u32::from(NORMAL),
        out_cpu: CPU,
        in_cpu: CPU,
        state: 1,
        flags: WaitFlags { preempted: waking.is_none(), ..WaitFlags::default() },
        next: task(9, "t9"),
        waker: waking.map(|_| task(30, "holder")),
        wakeup_cpu: CPU,
        ..Wait::default()
    }
}

fn explain(window: &Window, events: Vec<Event>, waits: Vec<Wait>) -> Spike {
    let seen = Seen { events, waits, sets: Set::ALL.to_vec(), ..Seen::default() };
    let spike = attribute(window, &seen, &kernel());
    assert!(spike.adds_up(), "{spike:#?}");
    spike
}

fn parts(spike: &Spike) -> Vec<Part<'_>> {
    let part = |s: &quietcore_measure::Segment| (s.at_ns.0, s.len_ns.0, s.kind);
    let segments = spike.segments.iter();
    segments.map(|s| (part(s), s.by.as_str())).map(|((a, l, k), by)| (a, l, k, by)).collect()
}

fn evidence(spike: &Spike) -> String {
    let lines = spike.segments.iter().flat_map(|segment| segment.evidence.iter());
    lines.map(String::as_str).collect::<Vec<_>>().join("\n")
}

// Spinning: everything in a gap is somebody else's.

#[test]
fn the_local_timer_is_the_tick_only_if_the_tick_expired_in_it() {
    let gap = window(100_000, 110_000, true);
    for (function, kind, by) in
        [(TICK, Kind::Tick, ""), (HRTIMER_WAKEUP, Kind::Timer, "hrtimer_wakeup")]
    {
        let events = vec![
            on(CPU, 104_000, What::HrTimer { function, due: None }),
            vector(Vector::LocalTimer, 103_000, 108_000),
        ];
        assert_eq!(parts(&explain(&gap, events, vec![])), [(0, 10_000, kind, by)]);
    }
}

#[test]
fn the_innermost_interrupt_wins() {
    let gap = window(100_000, 150_000, true);
    let events = vec![
        on(CPU, 130_000, What::Irq { line: 61, since: 120_000, name: "eth0-rx-3".into() }),
        on(CPU, 148_000, What::Softirq { vector: 3, since: 102_000 }),
    ];
    let spike = explain(&gap, events, vec![]);
    let expected = [
        (0, 20_000, Kind::Softirq, "NET_RX"),
        (20_000, 10_000, Kind::HardIrq, "eth0-rx-3 (IRQ 61)"),
        (30_000, 20_000, Kind::Softirq, "NET_RX"),
    ];
    assert_eq!(parts(&spike), expected);
}

#[test]
fn a_stall_by_the_host_is_told_from_the_late_interrupt_that_ends_it() {
    let gap = window(0, 5_010_000, true);
    let events = vec![
        on(CPU, 5_001_000, What::HrTimer { function: TICK, due: None }),
        vector(Vector::LocalTimer, 5_000_000, 5_008_000),
    ];
    let spike = explain(&gap, events, vec![]);
    let expected = [(0, 5_000_000, Kind::HostOrFirmware, ""), (5_000_000, 10_000, Kind::Tick, "")];
    assert_eq!(parts(&spike), expected);
}

#[test]
fn what_was_not_recorded_proves_nothing() {
    let gap = window(0, 100_000, true);
    let all = Set::ALL.to_vec();
    let without = |set| Set::ALL.into_iter().filter(|other| *other != set).collect();
    let cases = [
        (all.clone(), None, Kind::HostOrFirmware),
        (without(Set::Irq), None, Kind::Unexplained),
        (without(Set::Fault), None, Kind::Unexplained),
        (all, Some("events of CPU 1 were overwritten".to_owned()), Kind::Unexplained),
    ];
    for (sets, incomplete, kind) in cases {
        let seen = Seen { sets, incomplete: incomplete.clone(), ..Seen::default() };
        let spike = attribute(&gap, &seen, &kernel());
        assert_eq!((spike.kind(), spike.incomplete), (kind, incomplete));
    }
}

#[test]
fn a_page_fault_of_a_spinning_thread_lasts_until_it_looks_at_the_clock_again() {
    let gap = window(0, 400_000, true);
    let fault = |tid| on(CPU, 1_000, What::Fault { tid, address: 0x7000 });
    let spike = explain(&gap, vec![fault(VICTIM), vector(Vector::IrqWork, 5_000, 6_000)], vec![]);
    let expected = [
        (0, 5_000, Kind::PageFault, ""),
        (5_000, 1_000, Kind::HardIrq, "irq_work"),
        (6_000, 394_000, Kind::PageFault, ""),
    ];
    assert_eq!(parts(&spike), expected);
    assert_eq!(explain(&gap, vec![fault(99)], vec![]).kind(), Kind::HostOrFirmware);
}

#[test]
fn a_page_fault_ends_when_the_kernel_has_dealt_with_it() {
    let span = window(0, 100_000, false);
    let fault = |ts| on(CPU, ts, What::Fault { tid: VICTIM, address: 0x7000 });
    let end = |cpu, ts| on(cpu, ts, What::FaultEnd { tid: VICTIM });
    // The last one's end was not seen: nothing is claimed.
    let events = vec![fault(10_000), end(CPU, 40_000), end(0, 60_000), fault(70_000)];
    let expected = [
        (0, 10_000, Kind::User, ""),
        (10_000, 30_000, Kind::PageFault, ""),
        (40_000, 60_000, Kind::User, ""),
    ];
    assert_eq!(parts(&explain(&span, events, vec![])), expected);
}

#[test]
fn another_cpus_request_names_its_sender_and_a_flush_is_a_shootdown() {
    let gap = window(100_000, 110_000, true);
    let sent = |cpu| {
        let comm = Name::from("unmapper");
        on(cpu, 99_000, What::IpiSent { to: Some(CPU), by: 40, function: 0, comm })
    };
    let call = vector(Vector::CallFunctionSingle, 103_000, 108_000);
    let flush = |reason| on(CPU, 105_000, What::TlbFlush { reason, pages: 3 });
    let cases = [
        (vec![sent(0), call, flush(1)], Kind::TlbShootdown, "unmapper (tid 40)"),
        (vec![sent(0), call], Kind::Ipi, "unmapper (tid 40)"),
        (vec![sent(CPU), call], Kind::Ipi, "function call"),
        (vec![call, flush(2)], Kind::Ipi, "function call"),
        (vec![vector(Vector::Reschedule, 103_000, 108_000)], Kind::Ipi, "reschedule"),
    ];
    for (events, kind, by) in cases {
        assert_eq!(parts(&explain(&gap, events, vec![])), [(0, 10_000, kind, by)]);
    }
}

#[test]
fn an_nmi_is_known_by_its_length() {
    let gap = window(100_000, 110_000, true);
    let spike = explain(&gap, vec![on(CPU, 108_000, What::Nmi { ns: 4_000 })], vec![]);
    assert_eq!(parts(&spike), [(0, 10_000, Kind::Nmi, "")]);
}

#[test]
fn a_gap_with_a_switch_belongs_to_who_ran() {
    let events = vec![
        switch(10_000, VICTIM, 0, 9, 98),
        on(CPU, 12_000, What::Work { function: HRTIMER_WAKEUP }),
        switch(990_000, 9, 1, VICTIM, NORMAL),
    ];
    // The way there and back is part of it, as far as it is short.
    let spike = explain(&window(0, 1_002_000, true), events.clone(), vec![]);
    assert_eq!(parts(&spike), [(0, 1_002_000, Kind::Preempted, "t9 (tid 9)")]);
    let spike = explain(&window(0, 1_003_000, true), events, vec![]);
    let expected =
        [(0, 990_000, Kind::Preempted, "t9 (tid 9)"), (990_000, 13_000, Kind::HostOrFirmware, "")];
    assert_eq!(parts(&spike), expected);
    assert!(evidence(&spike).contains("workqueue_execute_start"), "{}", evidence(&spike));
}

// A thread's own time.

#[test]
fn a_span_is_the_threads_own_but_for_what_is_shown() {
    let span = window(0, 100_000, false);
    let events = vec![
        on(CPU, 40_000, What::Syscall { tid: VICTIM, number: 1, since: 10_000 }),
        on(CPU, 60_000, What::Syscall { tid: 99, number: 1, since: 50_000 }),
        vector(Vector::LocalTimer, 20_000, 25_000),
    ];
    let expected = [
        (0, 10_000, Kind::User, ""),
        (10_000, 10_000, Kind::Kernel, "write"),
        (20_000, 5_000, Kind::Timer, ""),
        (25_000, 15_000, Kind::Kernel, "write"),
        (40_000, 60_000, Kind::User, ""),
    ];
    assert_eq!(parts(&explain(&span, events, vec![])), expected);
}

#[test]
fn a_span_over_two_cpus_takes_each_ones_interrupts() {
    let span = window(0, 100_000, false);
    let away = Event { cpu: 0, ..switch(40_000, VICTIM, 0, 9, NORMAL) };
    let softirq = |cpu, since, ts| on(cpu, ts, What::Softirq { vector: 9, since });
    let events = vec![
        softirq(0, 10_000, 20_000),
        softirq(CPU, 12_000, 18_000),
        away,
        softirq(0, 70_000, 80_000),
        switch(50_000, 0, 0, VICTIM, NORMAL),
        softirq(CPU, 60_000, 65_000),
    ];
    let spike = explain(&span, events, vec![]);
    let expected = [
        (0, 10_000, Kind::User, ""),
        (10_000, 10_000, Kind::Softirq, "RCU"),
        (20_000, 20_000, Kind::User, ""),
        (40_000, 10_000, Kind::Preempted, "t9 (tid 9)"),
        (50_000, 10_000, Kind::User, ""),
        (60_000, 5_000, Kind::Softirq, "RCU"),
        (65_000, 35_000, Kind::User, ""),
    ];
    assert_eq!(parts(&spike), expected);
}

// Waits.

#[test]
fn a_wait_has_three_parts() {
    let away = window(1_000, 100_000, false);
    let futex = Wait {
        kernel: vec![FUTEX_WAIT],
        syscall: Some(202),
        ..wait(1_000, Some(60_000), Some(64_000), 100_000)
    };
    let events = vec![switch(2_000, 0, 0, 9, NORMAL), switch(100_000, 9, 1, VICTIM, NORMAL)];
    let spike = explain(&away, events, vec![futex]);
    let expected = [
        (0, 59_000, Kind::Lock, "holder (tid 30)"),
        (59_000, 4_000, Kind::WakeIpi, ""),
        (63_000, 36_000, Kind::RunQueue, "t9 (tid 9)"),
    ];
    assert_eq!(parts(&spike), expected);
    assert!(evidence(&spike).contains("kernel stack: futex_wait"));
}

#[test]
fn a_wait_is_told_by_itself_where_its_events_were_overwritten() {
    let away = window(1_000, 100_000, false);
    let futex = Wait { kernel: vec![FUTEX_WAIT], ..wait(1_000, Some(90_000), None, 100_000) };
    let expected =
        [(0, 89_000, Kind::Lock, "holder (tid 30)"), (89_000, 10_000, Kind::RunQueue, "")];
    // All that is left is that the thread came back from a later wait, or left for one before.
    let later = switch(150_000, 9, 1, VICTIM, NORMAL);
    let before = Event { cpu: 0, ..switch(500, VICTIM, 2, 9, NORMAL) };
    for left in [vec![], vec![later], vec![before], vec![before, later]] {
        let spike = explain(&away, left, vec![futex.clone()]);
        assert_eq!(parts(&spike), expected);
    }
}

#[test]
fn an_interrupt_holds_no_lock() {
    let away = window(1_000, 100_000, false);
    let mut timed_out =
        Wait { kernel: vec![FUTEX_WAIT], ..wait(1_000, Some(100_000), Some(100_000), 100_000) };
    timed_out.flags.in_irq = true;
    let spike = explain(&away, vec![], vec![timed_out]);
    assert_eq!(parts(&spike), [(0, 99_000, Kind::Sleep, "futex, timed out")]);
}

#[test]
fn a_waking_that_begins_before_its_sleeper_has_left_does_not_lengthen_anything() {
    let away = window(10_000, 20_000, false);
    let early = wait(10_000, Some(9_000), Some(9_500), 20_000);
    let events = vec![switch(10_000, VICTIM, 1, 9, NORMAL), switch(20_000, 9, 0, VICTIM, NORMAL)];
    let spike = explain(&away, events, vec![early]);
    assert_eq!(parts(&spike), [(0, 10_000, Kind::RunQueue, "t9 (tid 9)")]);
}

#[test]
fn a_wait_whose_wake_up_was_not_seen_is_not_split_and_says_so() {
    let away = window(1_000, 100_000, false);
    let mut unseen = wait(1_000, None, None, 100_000);
    unseen.flags = WaitFlags { no_wake: true, ..WaitFlags::default() };
    unseen.kernel = vec![DO_NANOSLEEP];
    let spike = explain(&away, vec![], vec![unseen]);
    assert_eq!(parts(&spike), [(0, 99_000, Kind::Sleep, "nanosleep")]);
    assert!(evidence(&spike).contains("not split"));
}

#[test]
fn a_preempted_thread_waits_for_whoever_ran() {
    let away = window(0, 90_000, false);
    let events = vec![
        switch(0, VICTIM, 0, 9, NORMAL),
        switch(30_000, 9, 0, 10, NORMAL),
        switch(90_000, 10, 0, VICTIM, NORMAL),
    ];
    let spike = explain(&away, events, vec![wait(0, None, None, 90_000)]);
    let expected = [
        (0, 30_000, Kind::Preempted, "t9 (tid 9)"),
        (30_000, 60_000, Kind::Preempted, "t10 (tid 10)"),
    ];
    assert_eq!(parts(&spike), expected);
    let lost = explain(&away, vec![], vec![wait(0, None, None, 90_000)]);
    assert_eq!(parts(&lost), [(0, 90_000, Kind::Preempted, "t9 (tid 9)")]);
    assert!(evidence(&lost).contains("not recorded"));
}

#[test]
fn the_idle_task_preempts_nobody() {
    let away = window(0, 90_000, false);
    let idle = || vec![switch(0, VICTIM, 0, 0, NORMAL), switch(90_000, 0, 0, VICTIM, NORMAL)];
    let cases =
        [(99, false, Kind::RtThrottled), (120, true, Kind::CpuQuota), (120, false, Kind::RunQueue)];
    for (prio, throttled, kind) in cases {
        let mut away_for = Wait { prio, ..wait(0, None, None, 90_000) };
        away_for.flags.throttled = throttled;
        assert_eq!(explain(&away, idle(), vec![away_for]).kind(), kind);
    }
}

#[test]
fn a_real_time_thread_that_waits_for_an_ordinary_one_is_throttled() {
    let away = window(0, 90_000, false);
    let events = |prio| vec![switch(0, VICTIM, 0, 9, prio), switch(90_000, 9, 0, VICTIM, 50)];
    let taken = || Wait { prio: 50, ..wait(0, None, None, 90_000) };
    let throttled = explain(&away, events(NORMAL), vec![taken()]);
    assert_eq!(parts(&throttled), [(0, 90_000, Kind::RtThrottled, "t9 (tid 9)")]);
    let higher = explain(&away, events(10), vec![taken()]);
    assert_eq!(parts(&higher), [(0, 90_000, Kind::Preempted, "t9 (tid 9)")]);
    // Woken while an ordinary one is in the kernel, it waits for that one.
    let woken = Wait { prio: 50, ..wait(0, Some(10_000), Some(10_000), 90_000) };
    let spike = explain(&away, vec![switch(0, VICTIM, 1, 9, NORMAL)], vec![woken]);
    assert_eq!(parts(&spike)[1], (10_000, 80_000, Kind::RunQueue, "t9 (tid 9)"));
}

#[test]
fn leaving_an_idle_state_takes_from_the_waking_until_the_state_is_left() {
    let away = window(0, 90_000, false);
    let idle = |ts, state| on(CPU, ts, What::Idle { state });
    let events = vec![
        switch(0, VICTIM, 1, 0, NORMAL),
        idle(200, Some(2)),
        idle(80_000, None),
        switch(90_000, 0, 0, VICTIM, NORMAL),
    ];
    let asleep = || wait(0, Some(50_000), Some(52_000), 90_000);
    let spike = explain(&away, events.clone(), vec![asleep()]);
    let expected = [
        (0, 50_000, Kind::Blocked, ""),
        (50_000, 30_000, Kind::IdleExit, "state 2"),
        (80_000, 10_000, Kind::WakeIpi, ""),
    ];
    assert_eq!(parts(&spike), expected);
    // Its own interrupt has woken the CPU before.
    let own = Wait { waker_cpu: CPU, ..asleep() };
    let spike = explain(&away, events, vec![own]);
    assert!(parts(&spike).iter().all(|part| part.2 != Kind::IdleExit));
}

#[test]
fn an_interrupt_on_the_run_queue_counts_only_where_it_delays() {
    let away = window(0, 100_000, false);
    let softirq = |since, ts| on(CPU, ts, What::Softirq { vector: 3, since });
    let asleep = || wait(0, Some(10_000), Some(10_000), 100_000);
    let run = || vec![switch(0, VICTIM, 1, 9, NORMAL), switch(100_000, 9, 0, VICTIM, NORMAL)];
    let kinds = |extra: &[Event]| -> Vec<Kind> {
        let events = [run(), extra.to_vec()].concat();
        let spike = explain(&away, events, vec![asleep()]);
        spike.segments.iter().map(|segment| segment.kind).collect()
    };
    // Somewhere in another's time slice: no.
    assert_eq!(kinds(&[softirq(20_000, 30_000)]), [Kind::Blocked, Kind::RunQueue]);
    // Under way when the thread was woken: yes.
    let expected = [Kind::Blocked, Kind::Softirq, Kind::RunQueue];
    assert_eq!(kinds(&[softirq(5_000, 30_000)]), expected);
    // Most of what the other had the CPU for: yes.
    let expected = [Kind::Blocked, Kind::RunQueue, Kind::Softirq];
    assert_eq!(kinds(&[softirq(20_000, 100_000)]), expected);
    // One within the other does not count twice.
    let nested = [softirq(20_000, 60_000), softirq(30_000, 55_000)];
    assert_eq!(kinds(&nested), [Kind::Blocked, Kind::RunQueue]);
}

#[test]
fn a_quota_is_over_when_its_timer_refills_it() {
    let names = "1000 T sched_cfs_period_timer\n";
    let away = window(0, 90_000, false);
    let mut throttled = wait(0, None, None, 90_000);
    throttled.flags.throttled = true;
    let events = vec![
        switch(0, VICTIM, 0, 9, NORMAL),
        on(0, 80_000, What::HrTimer { function: 0x1000, due: None }),
        switch(90_000, 9, 0, VICTIM, NORMAL),
    ];
    let seen = Seen { events, waits: vec![throttled], ..Seen::default() };
    let spike = attribute(&away, &seen, &Kallsyms::parse(names));
    let expected =
        [(0, 80_000, Kind::CpuQuota, ""), (80_000, 10_000, Kind::Preempted, "t9 (tid 9)")];
    assert_eq!(parts(&spike), expected);
}

#[test]
fn a_sleep_that_was_asked_for_is_late_only_from_its_waking_on() {
    // The recorder sends such a wait from its waking on; the switch away was long before.
    let late = window(50_000, 60_000, false);
    let mut asleep = wait(50_000, Some(50_000), Some(50_000), 60_000);
    asleep.flags.voluntary = true;
    let events = vec![switch(1_000, VICTIM, 1, 9, NORMAL), switch(60_000, 9, 1, VICTIM, NORMAL)];
    let spike = explain(&late, events, vec![asleep]);
    assert_eq!(parts(&spike), [(0, 10_000, Kind::RunQueue, "t9 (tid 9)")]);
}

#[test]
fn a_read_sleeps_where_it_waits_for_words_and_not_for_a_lock() {
    let names = "1000 t anon_pipe_read\n2000 t filemap_read\n3000 t vfs_read\n4000 t end\n";
    let names = Kallsyms::parse(names);
    let within = |function, state, flags| {
        let kernel = vec![function, 0x3010];
        let asleep = Wait { state, flags, kernel, ..wait(0, Some(50_000), Some(50_000), 60_000) };
        sleeps_in(&asleep, &names)
    };
    let (interruptible, not, plain) = (1, 2, WaitFlags::default());
    assert_eq!(within(0x1010, interruptible, plain).as_deref(), Some("read"));
    assert_eq!(within(0x1010, not, plain), None, "the pipe's own lock");
    assert_eq!(within(0x2010, interruptible, plain), None, "a file");
    let preempted = WaitFlags { preempted: true, ..plain };
    assert_eq!(within(0x1010, interruptible, preempted), None);
}

#[test]
fn a_thread_waits_on_the_run_queue_it_was_put_on_not_on_the_cpu_that_took_it() {
    let away = window(0, 90_000, false);
    let moved = Wait { in_cpu: 0, ..wait(0, Some(10_000), Some(10_000), 90_000) };
    let events = vec![switch(0, VICTIM, 1, 9, NORMAL)];
    let spike = explain(&away, events, vec![moved]);
    assert_eq!(parts(&spike)[1], (10_000, 80_000, Kind::RunQueue, "t9 (tid 9)"));
}

#[test]
fn a_thread_that_was_not_seen_to_come_back_was_away_until_it_did_something() {
    let leaves = |ts, state| switch(ts, VICTIM, state, 9, NORMAL);
    let asleep = on(CPU, 60_000, What::Syscall { tid: VICTIM, number: 230, since: 10_000 });
    let span = |events| explain(&window(0, 100_000, false), events, vec![]);
    // Its system call ended.
    let spike = span(vec![leaves(20_000, 1), asleep, leaves(200_000, 1)]);
    let expected = [
        (0, 10_000, Kind::User, ""),
        (10_000, 10_000, Kind::Kernel, "clock_nanosleep"),
        (20_000, 40_000, Kind::Sleep, "clock_nanosleep"),
        (60_000, 40_000, Kind::User, ""),
    ];
    assert_eq!(parts(&spike), expected);
    assert!(evidence(&spike).contains("when it came back was not seen"));
    // It left again.
    let spike = span(vec![leaves(20_000, 0), leaves(70_000, 0), switch(80_000, 9, 0, VICTIM, 120)]);
    assert_eq!(parts(&spike)[1], (20_000, 60_000, Kind::Preempted, "t9 (tid 9)"));
    // It looked at the clock: as the gap ended, and as it began.
    let spins = |from, to, events| explain(&window(from, to, true), events, vec![]);
    let spike = spins(10_000, 100_000, vec![leaves(20_000, 0), leaves(200_000, 0)]);
    assert_eq!(parts(&spike), [(0, 90_000, Kind::Preempted, "t9 (tid 9)")]);
    let spike = spins(50_000, 90_000, vec![leaves(20_000, 0)]);
    assert_eq!(parts(&spike), [(0, 40_000, Kind::HostOrFirmware, "")]);
}

#[test]
fn short_waits_within_a_span_are_told_by_their_switches() {
    let span = window(0, 100_000, false);
    let events = vec![
        on(CPU, 60_000, What::Syscall { tid: VICTIM, number: 202, since: 10_000 }),
        switch(20_000, VICTIM, 1, 0, NORMAL),
        switch(50_000, 0, 0, VICTIM, NORMAL),
    ];
    let spike = explain(&span, events, vec![]);
    let expected = [
        (0, 10_000, Kind::User, ""),
        (10_000, 10_000, Kind::Kernel, "futex"),
        (20_000, 30_000, Kind::Lock, "futex"),
        (50_000, 10_000, Kind::Kernel, "futex"),
        (60_000, 40_000, Kind::User, ""),
    ];
    assert_eq!(parts(&spike), expected);
}
