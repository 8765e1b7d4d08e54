//! A thread that its own runtime has stopped waits for the collector, whatever it blocks on.

use quietcore_bpf::{Pause, Task, Wait};
use quietcore_measure::{Kind, Nanos, Spike, Thread};
use quietcore_spike::{Kallsyms, Seen, Window, attribute};

const PID: u32 = 70;

fn wait() -> Wait {
    Wait {
        out_ts: 1_000,
        waking_ts: Some(9_000),
        wakeup_ts: Some(9_500),
        in_ts: 10_000,
        tid: 71,
        tgid: PID,
        comm: "worker".into(),
        prio: 120,
        out_cpu: 1,
        in_cpu: 1,
        state: 1,
        syscall: Some(202),
        next: Task { tid: 0, tgid: 0, comm: "swapper/1".into() },
        waker: Some(Task { tid: 72, tgid: PID, comm: "vm".into() }),
        wakeup_cpu: 1,
        ..Wait::default()
    }
}

fn explained(pauses: Vec<Pause>) -> Spike {
    let window = Window {
        thread: Thread { tid: 71, pid: PID, comm: "worker".into() },
        start_ns: 1_000,
        end_ns: 10_000,
        cpu: 1,
        spins: false,
        gaps: None,
    };
    let seen = Seen { waits: vec![wait()], pauses, ..Seen::default() };
    attribute(&window, &seen, &Kallsyms::default())
}

fn time_in(spike: &Spike, kind: Kind) -> Nanos {
    let of_kind = spike.segments.iter().filter(|segment| segment.kind == kind);
    of_kind.fold(Nanos(0), |sum, segment| sum + segment.len_ns)
}

#[test]
fn the_part_of_a_wait_in_which_the_process_was_stopped_is_the_collector_s() {
    let without = explained(Vec::new());
    assert_eq!(
        (time_in(&without, Kind::Lock), time_in(&without, Kind::Gc)),
        (Nanos(8_000), Nanos(0))
    );

    let pause = Pause { start: 3_000, end: 8_900, tgid: PID, tid: 72 };
    let with = explained(vec![pause]);
    assert!(with.adds_up());
    assert_eq!(
        (time_in(&with, Kind::Lock), time_in(&with, Kind::Gc)),
        (Nanos(2_100), Nanos(5_900))
    );
    assert_eq!(with.kind(), Kind::Gc);
}

#[test]
fn a_stop_that_has_not_been_seen_to_end_lasts_until_the_thread_is_woken() {
    let open = Pause { start: 500, end: u64::MAX, tgid: PID, tid: 0 };
    let spike = explained(vec![open]);
    assert!(spike.adds_up());
    assert_eq!(time_in(&spike, Kind::Gc), Nanos(8_000));
    assert!(time_in(&spike, Kind::RunQueue) > Nanos(0));
}
