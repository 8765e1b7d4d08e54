//! How much of the silence before an interrupt is its delivery: a table of moments.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use quietcore_bpf::{Event, Name, Set, Vector, What};
use quietcore_measure::{Kind, Spike, Thread};
use quietcore_spike::{Kallsyms, Seen, Window, attribute};

const VICTIM: u32 = 7;
const CPU: u32 = 1;
/// When the gap begins.
const GAP: u64 = 10_000_000;
const TICK: u64 = 0x1000;
const SYMBOLS: &str = "1000 T tick_nohz_handler\n2000 T timerfd_tmrproc\n";

/// A segment: where it begins, how long it is, what it is.
type Part = (u64, u64, Kind);
const HOST: Kind = Kind::HostOrFirmware;

fn explain(events: Vec<Event>, len: u64, seen: Seen) -> Spike {
    let thread = Thread { tid: VICTIM, pid: VICTIM, comm: "victim".into() };
    let (start_ns, end_ns) = (GAP, GAP + len);
    let window = Window { thread, start_ns, end_ns, cpu: CPU, spins: true, gaps: None };
    let spike = attribute(&window, &Seen { events, ..seen }, &Kallsyms::parse(SYMBOLS));
    assert!(spike.adds_up(), "{spike:#?}");
    spike
}

fn all() -> Seen {
    Seen { sets: Set::ALL.to_vec(), ..Seen::default() }
}

fn parts(spike: &Spike) -> Vec<Part> {
    spike.segments.iter().map(|s| (s.at_ns.0, s.len_ns.0, s.kind)).collect()
}

fn on(cpu: u32, at: i64, what: What) -> Event {
    Event { ts: GAP.checked_add_signed(at).unwrap(), cpu, what }
}

fn vector(vector: Vector, from: u64, to: i64) -> Event {
    on(CPU, to, What::Vector { vector, since: GAP + from })
}

fn expired(at: i64, due: Option<i64>) -> Event {
    let due = due.map(|due| GAP.checked_add_signed(due).unwrap());
    on(CPU, at, What::HrTimer { function: TICK, due })
}

fn sent(at: i64, to: Option<u32>, by: u32) -> Event {
    on(0, at, What::IpiSent { to, by, function: 0, comm: Name::from("sender") })
}

/// A tick that comes `silence` after the gap's beginning and was due at `due`, and takes 5 µs.
fn tick(silence: u64, due: Option<i64>) -> Vec<Event> {
    let began = silence as i64;
    vec![expired(began + 1_000, due), vector(Vector::LocalTimer, silence, began + 5_000)]
}

#[test]
fn silence_before_a_timer_is_its_delivery_from_when_it_was_due() {
    let whole = |len| vec![(0, len, Kind::Tick)];
    let none = |silence| vec![(0, silence, HOST), (silence, 5_000, Kind::Tick)];
    let cases: &[(&str, u64, Option<i64>, Vec<Part>)] = &[
        ("not known, short", 16_000, None, whole(21_000)),
        ("not known, long", 16_001, None, none(16_001)),
        ("due as the gap began", 90_000, Some(0), whole(95_000)),
        ("long due: delivered late", 90_000, Some(-300_000), whole(95_000)),
        ("the host came a little early", 90_000, Some(5_000), whole(95_000)),
        ("due, and the host was away", 200_000, Some(0), whole(205_000)),
        ("due, and away for longer", 200_001, Some(0), none(200_001)),
        ("due, and stopped for a second", 1_000_000_000, Some(0), none(1_000_000_000)),
        (
            "stopped before, let go when it was due",
            90_000,
            Some(80_000),
            vec![(0, 80_000, HOST), (80_000, 15_000, Kind::Tick)],
        ),
        (
            "short, and yet stopped before it was due",
            14_000,
            Some(9_000),
            vec![(0, 9_000, HOST), (9_000, 10_000, Kind::Tick)],
        ),
        ("stopped before, and long after", 90_000, Some(70_000), none(90_000)),
        ("a second that swallowed a tick", 1_000_000_000, Some(3_000_000), none(1_000_000_000)),
        // Its range allows to take it along when another expires: nothing is known of that one.
        ("due only later", 12_000, Some(40_000), whole(17_000)),
    ];
    for (what, silence, due, expected) in cases {
        let spike = explain(tick(*silence, *due), silence + 5_000, all());
        assert_eq!(parts(&spike), *expected, "{what}");
    }
}

#[test]
fn of_several_timers_the_first_that_was_due_brought_the_interrupt() {
    let mut events = tick(60_000, Some(70_000));
    events.insert(0, expired(60_500, Some(-1_000)));
    let spike = explain(events, 65_000, all());
    assert_eq!(parts(&spike), [(0, 65_000, Kind::Tick)]);
}

#[test]
fn the_way_back_from_one_interrupt_is_told_from_the_way_to_the_next() {
    let softirq = on(CPU, 10_000, What::Softirq { vector: 3, since: GAP });
    let cases = [
        // Still on its way back when the tick was due.
        (14_000, vec![(0, 14_000, Kind::Softirq), (14_000, 45_000, Kind::Tick)]),
        // Back, and stopped by somebody else before the tick was due.
        (
            44_000,
            vec![(0, 10_000, Kind::Softirq), (10_000, 34_000, HOST), (44_000, 15_000, Kind::Tick)],
        ),
    ];
    for (due, expected) in cases {
        let events = [vec![softirq], tick(54_000, Some(due))].concat();
        assert_eq!(parts(&explain(events, 59_000, all())), expected, "{due}");
    }
    // As short as a way back, it is one.
    let events = [vec![softirq], tick(15_000, Some(12_000))].concat();
    let expected = [(0, 15_000, Kind::Softirq), (15_000, 5_000, Kind::Tick)];
    assert_eq!(parts(&explain(events, 20_000, all())), expected);
}

#[test]
fn another_cpus_interrupt_was_due_when_it_was_sent() {
    let call = || vector(Vector::CallFunctionSingle, 60_000, 65_000);
    let whole = vec![(0, 65_000, Kind::Ipi)];
    let none = vec![(0, 60_000, HOST), (60_000, 5_000, Kind::Ipi)];
    let from = |at| vec![(0, at, HOST), (at, 65_000 - at, Kind::Ipi)];
    let earlier = |at| vector(Vector::Reschedule, at, at as i64 + 100);
    let cases: Vec<(&str, Vec<Event>, Vec<Part>)> = vec![
        ("nobody was seen to send it", vec![], none.clone()),
        ("sent as the gap began", vec![sent(-500, Some(CPU), 40)], whole.clone()),
        ("sent to several", vec![sent(-500, None, 40)], whole.clone()),
        ("sent elsewhere", vec![sent(-500, Some(2), 40)], none.clone()),
        ("sent while the CPU stood still", vec![sent(50_000, Some(CPU), 40)], from(50_000)),
        ("the first counts", vec![sent(0, Some(CPU), 40), sent(50_000, Some(CPU), 41)], whole),
        (
            "what was sent to several may not have been for this one",
            vec![sent(-500, None, 40), sent(50_000, Some(CPU), 41)],
            from(50_000),
        ),
        (
            "what brought an earlier one does not count",
            vec![
                sent(-9_000, Some(CPU), 40),
                on(CPU, -7_900, What::Vector { vector: Vector::Reschedule, since: GAP - 8_000 }),
                sent(50_000, Some(CPU), 41),
            ],
            from(50_000),
        ),
        ("one that is not over yet", vec![sent(-500, Some(CPU), 40), earlier(70_000)], {
            vec![(0, 65_000, Kind::Ipi)]
        }),
    ];
    for (what, mut events, expected) in cases {
        events.push(call());
        assert_eq!(parts(&explain(events, 65_000, all())), expected, "{what}");
    }
}

#[test]
fn a_call_that_was_sent_for_a_softirq_or_a_switch_is_delivered_for_that() {
    let head = vec![sent(-500, Some(CPU), 40), vector(Vector::CallFunctionSingle, 60_000, 60_500)];
    let softirq = |vector| on(CPU, 90_000, What::Softirq { vector, since: GAP + 66_000 });
    let timer = || vector(Vector::LocalTimer, 61_000, 65_000);
    // Of NET_RX, with a timer's interrupt before it; of RCU, which nobody else can ask for.
    for (raised, kind) in [(3, Kind::Softirq), (9, Kind::Ipi)] {
        let events = [head.clone(), vec![timer(), softirq(raised)]].concat();
        let spike = explain(events, 90_000, all());
        assert_eq!(parts(&spike)[0].2, kind, "{spike:#?}");
        assert!(parts(&spike)[0].1 >= 60_000);
    }
    let switch = |at, from, to| {
        let comm = Name::from("kworker/1:0");
        let (state, preempt, prio) = (0, false, 120);
        on(CPU, at, What::Switch { from, state, preempt, to, tgid: to, prio, comm })
    };
    let work = vec![switch(61_000, VICTIM, 9), switch(90_000, 9, VICTIM)];
    let spike = explain([head, work].concat(), 90_000, all());
    assert_eq!(parts(&spike)[0], (0, 60_000, Kind::Preempted));
    let line = "it was due at -500 ns";
    assert!(spike.segments[0].evidence.iter().any(|said| said == line), "{spike:#?}");
}

#[test]
fn where_events_are_missing_a_due_interrupt_proves_nothing() {
    let seen = Seen { incomplete: Some("events of CPU 1 were overwritten".into()), ..all() };
    let spike = explain(tick(90_000, Some(0)), 95_000, seen);
    assert_eq!(parts(&spike)[0], (0, 90_000, Kind::Unexplained));
}

/// A tick that begins 2 ms into the gap and takes a second: the machine stood still within it.
#[test]
fn a_second_in_which_no_cpu_does_anything_is_not_the_ticks() {
    let (began, stood) = (2_000_000, 1_000_000_000);
    let end = began + 10_000 + stood;
    let tick = || vec![expired(began + 5_000, None), vector(Vector::LocalTimer, began as u64, end)];
    let spike = explain(tick(), end as u64, all());
    let kinds: Vec<_> = parts(&spike);
    let of = |kind| kinds.iter().filter(|part| part.2 == kind).map(|part| part.1).sum::<u64>();
    assert_eq!((of(Kind::Tick), of(HOST)), (5_000, 2_000_000 + stood as u64 + 5_000));

    // Another CPU at work all the while: whatever it was, the machine did not stand still.
    let busy =
        (0..end / 4_000_000).map(|n| on(0, n * 4_000_000, What::TlbFlush { reason: 0, pages: 1 }));
    let spike = explain(tick().into_iter().chain(busy).collect(), end as u64, all());
    let tick_ns: u64 = parts(&spike).iter().filter(|p| p.2 == Kind::Tick).map(|p| p.1).sum();
    assert_eq!(tick_ns, (end - began) as u64);

    // Nor is it a softirq's, which may take long, but not so long.
    let softirq = |end: i64| on(CPU, end, What::Softirq { vector: 7, since: GAP + began as u64 });
    let named = |end: i64| {
        let spike = explain(vec![softirq(end)], end as u64, all());
        parts(&spike).iter().filter(|p| p.2 == Kind::Softirq).map(|p| p.1).sum::<u64>()
    };
    assert_eq!(named(end), 0);
    assert_eq!(named(began + 100_000_000), 100_000_000);

    // A device's handler may take long.
    let name = Name::from("disk");
    let long = on(CPU, end, What::Irq { line: 9, since: GAP + began as u64, name });
    let spike = explain(vec![long], end as u64, all());
    assert!(parts(&spike).contains(&(began as u64, (end - began) as u64, Kind::HardIrq)));
}

/// Another thread comes 1 ms into the gap and has the CPU for a second without a tick.
#[test]
fn a_second_without_a_tick_is_not_the_other_threads() {
    let (came, end) = (1_000_000, 1_001_000_000);
    let switch = |at: i64, from: u32, to: u32, prio: u16| {
        let comm = Name::from("t");
        on(CPU, at, What::Switch { from, state: 0, preempt: true, to, tgid: to, prio, comm })
    };
    let host = |prio: u16, more: Vec<Event>, seen: Seen| {
        let turns = [switch(came, VICTIM, 9, prio), switch(end, 9, VICTIM, 120)];
        let spike = explain(turns.into_iter().chain(more).collect(), end as u64 + 1_000, seen);
        let of = |kind| parts(&spike).iter().filter(|p| p.2 == kind).map(|p| p.1).sum::<u64>();
        (of(Kind::Preempted), of(HOST) / 1_000_000)
    };
    // The last microsecond is the switch back.
    let turn = (end - came) as u64 + 1_000;
    assert_eq!(host(120, vec![], all()), (0, 1_001));
    // Its first ticks came: that much was its own.
    let ticks = (1..=3).map(|n| {
        let began = came + n * 4_000_000;
        vector(Vector::LocalTimer, began as u64, began + 2_000)
    });
    let (own, host_ms) = host(120, ticks.collect(), all());
    assert!((11_900_000..12_100_000).contains(&own) && host_ms == 988, "{own} {host_ms}");
    // A CPU without a tick may be a real-time thread's, or its ticks were not recorded.
    assert_eq!(host(50, vec![], all()), (turn, 1));
    let without = Set::ALL.iter().copied().filter(|set| *set != Set::Irq).collect();
    assert_eq!(host(120, vec![], Seen { sets: without, ..Seen::default() }).0, turn);
    // Another CPU goes on.
    let busy = |n: i64| on(0, n * 40_000_000, What::TlbFlush { reason: 0, pages: 1 });
    assert_eq!(host(120, (1..26).map(busy).collect(), all()), (turn, 1));
}

#[test]
fn where_events_are_missing_time_is_not_a_threads_own_either() {
    let thread = Thread { tid: VICTIM, ..Thread::default() };
    let (start_ns, end_ns) = (GAP, GAP + 9_000);
    let span = Window { thread, start_ns, end_ns, cpu: CPU, spins: false, gaps: None };
    for (incomplete, kind) in [(None, Kind::User), (Some("lost".into()), Kind::Unexplained)] {
        let seen = Seen { incomplete, ..all() };
        assert_eq!(attribute(&span, &seen, &Kallsyms::parse(SYMBOLS)).kind(), kind);
    }
}
