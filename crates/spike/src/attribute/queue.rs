//! Who had the CPU while the thread could have used it.

use quietcore_bpf::{Wait, What};
use quietcore_measure::Kind;

use super::oncpu;
use super::paint::{Piece, paint};
use super::scene::{Runner, Scene, comes};
use super::still;
use super::track::Off;

/// Functions of work items that are worth showing for one stretch.
const WORKS: usize = 4;

/// A stretch on a run queue.
pub(super) struct Queue {
    start: u64,
    end: u64,
    /// Of which CPU.
    pub cpu: u32,
    /// It was taken off the CPU; otherwise it was woken.
    preempted: bool,
    /// Its control group had used up its quota.
    throttled: bool,
    /// It is of a real-time class.
    real_time: bool,
    /// Who came in its place, where that was kept.
    next: Option<String>,
}

impl Queue {
    /// Of a thread that was taken off its CPU.
    pub fn preempted(scene: &Scene<'_>, start: u64, end: u64, off: &Off<'_>) -> Self {
        let next = off.wait.map(|wait| super::scene::named(&wait.next.comm, wait.next.tid));
        Self {
            start,
            end,
            cpu: off.out_cpu.unwrap_or(scene.window.cpu),
            preempted: true,
            throttled: off.wait.is_some_and(|wait| wait.flags.throttled),
            real_time: off.prio.is_some_and(|prio| prio < 100),
            next,
        }
    }

    /// Of a thread that was woken.
    pub fn woken(start: u64, end: u64, wait: &Wait) -> Self {
        Self {
            start,
            end,
            cpu: wait.wakeup_cpu,
            preempted: false,
            throttled: wait.flags.throttled,
            real_time: wait.prio < 100,
            next: None,
        }
    }
}

/// All of the stretch.
pub(super) fn queue(scene: &Scene<'_>, queue: &Queue) -> Vec<Piece> {
    let quota_until = if queue.throttled { quota_until(scene, queue) } else { queue.start };
    let mut base = Vec::new();
    if quota_until > queue.start {
        base.push(
            Piece::new(queue.start, quota_until, Kind::CpuQuota, "")
                .with("its control group had used up its CPU quota"),
        );
    }
    let mut layers = Vec::new();
    let mut from = quota_until;
    let mut runner = scene.runner(queue.cpu, from);
    let switches = scene.between(queue.cpu, from.saturating_add(1), queue.end).iter();
    let cuts = switches.filter_map(|event| comes(event)).map(Some).chain([None]);
    for next in cuts {
        let to = next.map_or(queue.end, |next| next.since).clamp(from, queue.end);
        if to > from {
            let piece = stretch(scene, queue, from, to, runner);
            layers.extend(delays(scene, queue, &piece, runner));
            base.extend(still::split_turn(scene, piece, runner));
            from = to;
        }
        runner = next;
    }
    paint(base, layers)
}

/// Quota comes back by a timer.
fn quota_until(scene: &Scene<'_>, queue: &Queue) -> u64 {
    let refilled = scene.everywhere().filter(|event| match event.what {
        What::HrTimer { function, .. } => {
            let name = scene.kernel.name(function).unwrap_or_default();
            matches!(name, "sched_cfs_period_timer" | "sched_cfs_slack_timer")
        }
        _ => false,
    });
    let within = refilled.map(|event| event.ts).filter(|ts| (queue.start..=queue.end).contains(ts));
    within.max().unwrap_or(queue.end)
}

/// A stretch in which one task had the CPU.
fn stretch(
    scene: &Scene<'_>,
    queue: &Queue,
    from: u64,
    to: u64,
    runner: Option<Runner<'_>>,
) -> Piece {
    let waits = if queue.preempted { Kind::Preempted } else { Kind::RunQueue };
    let Some(runner) = runner.filter(|runner| runner.tid != scene.tid()) else {
        let by = queue.next.clone().unwrap_or_default();
        let line = format!("who ran on CPU {} meanwhile was not recorded", queue.cpu);
        return Piece::new(from, to, waits, by).with(line);
    };
    // Who already ran when the thread woke up may not have been stoppable at once; whoever the
    // scheduler chose after that was preferred.
    let chosen = queue.preempted || runner.since > queue.start;
    let line = format!(
        "sched_switch CPU {} at {}: {} came, priority {}",
        queue.cpu,
        scene.at(runner.since),
        runner.name(),
        runner.prio
    );
    let piece = |kind, by: String| Piece::new(from, to, kind, by).with(line.clone());
    if queue.real_time && chosen && !runner.is_real_time() {
        let by = if runner.is_idle() { String::new() } else { runner.name() };
        let why = "a real-time thread waits for one that is not: throttling or the fair server";
        return piece(Kind::RtThrottled, by).with(why);
    }
    if runner.is_idle() && !queue.preempted {
        return piece(Kind::WakeIpi, String::new()).with("the CPU was idle: on its way");
    }
    if runner.is_idle() {
        let why =
            "the CPU was idle although the thread could run: throttled, or on its way elsewhere";
        return piece(Kind::RunQueue, "idle".to_owned()).with(why);
    }
    let mut piece = piece(waits, runner.name());
    let works = scene.between(queue.cpu, from, to).iter().filter_map(|event| match event.what {
        What::Work { function } => Some(format!(
            "workqueue_execute_start at {}: {}",
            scene.at(event.ts),
            scene.function(function)
        )),
        _ => None,
    });
    piece.evidence.extend(works.take(WORKS));
    piece
}

/// Interrupts that held the thread up, and not just whoever had the CPU: on an idle CPU, those that
/// ran when it became runnable, and those that took most of the stretch.
fn delays(
    scene: &Scene<'_>,
    queue: &Queue,
    piece: &Piece,
    runner: Option<Runner<'_>>,
) -> Vec<Piece> {
    let mut found = oncpu::interrupts(scene, queue.cpu, piece.start, piece.end);
    let most = covered(&mut found, piece) > piece.len() / 2;
    let idle = runner.is_some_and(|runner| runner.is_idle());
    if !idle && !most {
        found.retain(|interrupt| (interrupt.start..interrupt.end).contains(&queue.start));
    }
    for interrupt in &mut found {
        interrupt.start = interrupt.start.max(piece.start);
        interrupt.end = interrupt.end.min(piece.end);
        let carries = interrupt.kind == Kind::Ipi && !queue.preempted && idle;
        if carries {
            interrupt.kind = Kind::WakeIpi;
            interrupt.by = String::new();
        }
    }
    found
}

/// How much of a piece others cover, of which some lie within one another.
fn covered(others: &mut [Piece], piece: &Piece) -> u64 {
    others.sort_by_key(|other| other.start);
    let (mut sum, mut at) = (0, piece.start);
    for other in others {
        let (start, end) = (other.start.max(at), other.end.min(piece.end));
        sum += end.saturating_sub(start);
        at = at.max(end);
    }
    sum
}
