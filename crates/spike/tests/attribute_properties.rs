//! Whatever the events are, the segments of a spike add up to it.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use proptest::prelude::*;
use quietcore_bpf::{Event, Name, Pause, Set, Task, Vector, Wait, WaitFlags, What};
use quietcore_measure::Thread;
use quietcore_spike::{Kallsyms, Seen, Window, attribute};

const THREAD: u32 = 7;

fn moment() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..2_000u64, 20 => 900_000..1_100_000u64, 1 => Just(0), 1 => Just(u64::MAX)]
}

fn tid() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(THREAD), 8..12u32]
}

fn vector() -> impl Strategy<Value = Vector> {
    prop::sample::select(vec![
        Vector::LocalTimer,
        Vector::Reschedule,
        Vector::CallFunction,
        Vector::IrqWork,
    ])
}

fn what() -> impl Strategy<Value = What> {
    let name = Name::from("somebody");
    prop_oneof![
        6 => (tid(), tid(), 0..3u16, any::<bool>(), 0..140u16).prop_map(
            move |(from, to, state, preempt, prio)| What::Switch {
                from, state, preempt, to, tgid: to, prio, comm: name
            }
        ),
        1 => (0..40u32, moment()).prop_map(move |(line, since)| What::Irq { line, since, name }),
        1 => (0..12u32, moment()).prop_map(|(vector, since)| What::Softirq { vector, since }),
        3 => (vector(), moment()).prop_map(|(vector, since)| What::Vector { vector, since }),
        1 => moment().prop_map(|ns| What::Nmi { ns }),
        1 => prop::option::of(0..3u32).prop_map(|state| What::Idle { state }),
        1 => (0..600u64, prop::option::of(moment()))
            .prop_map(|(function, due)| What::HrTimer { function, due }),
        1 => (0..600u64).prop_map(|function| What::Timer { function }),
        1 => (0..600u64).prop_map(|function| What::Work { function }),
        1 => (0..5u32, moment()).prop_map(|(reason, pages)| What::TlbFlush { reason, pages }),
        1 => (prop::option::of(0..3u32), tid(), 0..600u64).prop_map(move |(to, by, function)| {
            What::IpiSent { to, by, function, comm: name }
        }),
        1 => (tid(), moment()).prop_map(|(tid, address)| What::Fault { tid, address }),
        1 => tid().prop_map(|tid| What::FaultEnd { tid }),
        1 => (tid(), 0..500u32, moment())
            .prop_map(|(tid, number, since)| What::Syscall { tid, number, since }),
        1 => (any::<bool>(), 0..64u32)
            .prop_map(|(stopped, dependency)| What::TickStop { stopped, dependency }),
        1 => (tid(), moment()).prop_map(|(tid, since)| What::Reclaim { tid, since }),
        1 => (tid(), moment()).prop_map(|(tid, since)| What::Compaction { tid, since }),
        1 => (tid(), moment()).prop_map(|(tid, since)| What::MmapLock { tid, since }),
        2 => (moment(), moment()).prop_map(|(ns, since)| What::Steal { ns, since }),
        1 => (0..3u32, 1..5u32, prop::option::of(1..5u32))
            .prop_map(|(of, khz, before)| What::Frequency { of, khz, before }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    (moment(), 0..3u32, what()).prop_map(|(ts, cpu, what)| Event { ts, cpu, what })
}

fn flags() -> impl Strategy<Value = WaitFlags> {
    any::<u8>().prop_map(|bits| WaitFlags {
        preempted: bits & 1 != 0,
        io: bits & 2 != 0,
        throttled: bits & 4 != 0,
        no_wake: bits & 8 != 0,
        voluntary: bits & 16 != 0,
        in_irq: bits & 32 != 0,
        in_softirq: bits & 64 != 0,
        stolen: bits & 128 != 0,
    })
}

prop_compose! {
    fn wait()(
        times in [moment(), moment(), moment(), moment()],
        unseen in any::<[bool; 2]>(),
        flags in flags(),
        cpus in [0..3u32, 0..3u32, 0..3u32],
        (prio, waker) in (0..140u32, tid()),
        syscall in prop::option::of(0..500u32),
        kernel in prop::collection::vec(0..600u64, 0..5),
    ) -> Wait {
        let task = |tid| Task { tid, tgid: tid, comm: Name::from("waker") };
        Wait {
            out_ts: times[0],
            waking_ts: unseen[0].then_some(times[1]),
            wakeup_ts: unseen[1].then_some(times[2]),
            in_ts: times[3],
            tid: THREAD,
            tgid: THREAD,
            comm: Name::from("victim"),
            prio,
            out_cpu: cpus[0],
            in_cpu: cpus[1],
            state: 1,
            flags,
            syscall,
            next: task(9),
            waker: unseen[0].then_some(task(waker)),
            waker_cpu: cpus[2],
            wakeup_cpu: cpus[2],
            kernel: kernel.clone(),
            waker_kernel: kernel,
            waker_user: vec![1, 2],
            ..Wait::default()
        }
    }
}

prop_compose! {
    fn window()(start in moment(), end in moment(), cpu in 0..3u32, spins in any::<bool>()) -> Window {
        let thread = Thread { tid: THREAD, pid: THREAD, comm: "victim".into() };
        Window { thread, start_ns: start, end_ns: end, cpu, spins, gaps: None }
    }
}

fn kernel() -> Kallsyms {
    let names = ["tick_nohz_handler", "futex_wait", "exc_page_fault", "do_nanosleep", "schedule"];
    let line = |(i, name): (usize, &&str)| format!("{:x} T {name}\n", (i + 1) * 100);
    Kallsyms::parse(&names.iter().enumerate().map(line).collect::<String>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn segments_add_up_to_the_spike_whatever_was_seen(
        window in window(),
        events in prop::collection::vec(event(), 0..60),
        waits in prop::collection::vec(wait(), 0..4),
        pauses in prop::collection::vec((moment(), moment()), 0..3),
        all_sets in any::<bool>(),
    ) {
        let sets = if all_sets { Set::ALL.to_vec() } else { Vec::new() };
        let pause = |(start, end)| Pause { start, end, tgid: THREAD, tid: 9 };
        let pauses = pauses.into_iter().map(pause).collect();
        let seen = Seen { events, waits, pauses, sets, hears_of_steal: all_sets, incomplete: None };
        let spike = attribute(&window, &seen, &kernel());
        prop_assert!(spike.adds_up(), "{:#?}", spike.segments);
        prop_assert!(spike.segments.iter().all(|segment| segment.len_ns.0 > 0));
        prop_assert_eq!(spike.len_ns.0, window.end_ns.saturating_sub(window.start_ns));
    }

    #[test]
    fn the_order_in_which_events_of_different_moments_come_does_not_matter(
        window in window(),
        mut events in prop::collection::vec(event(), 0..40),
        waits in prop::collection::vec(wait(), 0..2),
    ) {
        events.sort_by_key(|event| event.ts);
        events.dedup_by_key(|event| event.ts);
        let seen = |events| Seen { events, waits: waits.clone(), ..Seen::default() };
        let forwards = attribute(&window, &seen(events.clone()), &kernel());
        events.reverse();
        prop_assert_eq!(forwards, attribute(&window, &seen(events), &kernel()));
    }
}
