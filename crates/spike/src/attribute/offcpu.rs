//! What a wait was made of: blocked, then woken, then runnable without a CPU.

use quietcore_bpf::{Event, Set, Wait, What};
use quietcore_measure::Kind;

use super::blocked::{self, Reason};
use super::paint::{Piece, paint};
use super::queue::{Queue, queue};
use super::scene::{Scene, named};
use super::stolen;
use super::track::Off;
use crate::syscalls;

/// All of `[start, end)`, in which the thread had no CPU.
pub(super) fn explain(scene: &Scene<'_>, start: u64, end: u64, off: &Off<'_>) -> Vec<Piece> {
    let preempted = match (off.wait, off.left) {
        (Some(wait), _) => wait.flags.preempted,
        (None, Some((_, could_run))) => could_run,
        (None, None) => return vec![unseen(scene, start, end, off)],
    };
    if preempted {
        let waits = Queue::preempted(scene, start, end, off);
        return stolen::cut(scene, queue(scene, &waits), waits.cpu);
    }
    match off.wait {
        Some(wait) if wait.flags.no_wake => {
            let mut piece = blocked(scene, wait, off, start, end);
            piece.evidence.push("its wake-up was not seen: the wait is not split".to_owned());
            stopped(scene, piece)
        }
        Some(wait) => woken(scene, wait, off, start, end),
        None => stopped(scene, short(scene, start, end, off)),
    }
}

/// When the process's own runtime had stopped it: what a thread blocks on meanwhile is only the means.
fn stopped(scene: &Scene<'_>, asleep: Piece) -> Vec<Piece> {
    let (from, to) = (asleep.start, asleep.end);
    let others = scene.seen.pauses.iter().filter(|pause| pause.tid != scene.tid());
    let layers = others.filter(|pause| pause.start < to && from < pause.end).map(|pause| {
        let ended = match pause.end {
            u64::MAX => "not ended yet".to_owned(),
            end => format!("ended at {} by tid {}", scene.at(end), pause.tid),
        };
        let line = format!("the runtime stopped the process at {}, {ended}", scene.at(pause.start));
        let (start, end) = (pause.start.max(from), pause.end.min(to));
        Piece::new(start, end, Kind::Gc, "stop of the whole process").with(line)
    });
    let layers = layers.collect();
    paint(vec![asleep], layers)
}

/// It was away, and nobody saw it leave.
fn unseen(scene: &Scene<'_>, start: u64, end: u64, off: &Off<'_>) -> Piece {
    let cpu = off.in_cpu.unwrap_or(scene.window.cpu);
    let line = format!("it came to CPU {cpu} at {}; when and why it left was not seen", {
        scene.at(off.in_ts)
    });
    Piece::new(start, end, Kind::Unexplained, "").with(line)
}

/// A wait below the threshold, of which only the switches are known.
fn short(scene: &Scene<'_>, start: u64, end: u64, off: &Off<'_>) -> Piece {
    let number = scene.own().iter().find_map(|event| match event.what {
        What::Syscall { tid, number, since } if tid == scene.tid() => {
            (since <= off.out_ts && off.in_ts <= event.ts).then_some(number)
        }
        _ => None,
    });
    let (kind, by) = blocked::by_entry(scene, off.out_ts, off.in_ts)
        .or_else(|| blocked::by_syscall(number?))
        .unwrap_or((Kind::Blocked, number.map(syscalls::name).unwrap_or_default()));
    Piece::new(start, end, kind, by).with(left(scene, off)).with(match off.in_cpu {
        Some(_) => "shorter than the threshold: its wake-up was not kept",
        None => "when it came back was not seen",
    })
}

fn left(scene: &Scene<'_>, off: &Off<'_>) -> String {
    let cpu = off.out_cpu.map_or_else(String::new, |cpu| format!(" CPU {cpu}"));
    let state = off.left.map(|(state, _)| u32::from(state)).or(off.wait.map(|wait| wait.state));
    let state = match state.unwrap_or_default() & 0xff {
        0 => "runnable",
        1 => "state S (interruptible)",
        2 => "state D (uninterruptible)",
        4 | 8 => "stopped or traced",
        _ => "another state",
    };
    format!("sched_switch{cpu} at {}: it left, {state}", scene.at(off.out_ts))
}

fn blocked(scene: &Scene<'_>, wait: &Wait, off: &Off<'_>, start: u64, end: u64) -> Piece {
    let Reason { kind, by, evidence } = blocked::reason(scene, wait);
    let mut piece = Piece::new(start, end, kind, by).with(left(scene, off));
    piece.evidence.extend(evidence);
    piece
}

/// A wait that somebody ended.
fn woken(scene: &Scene<'_>, wait: &Wait, off: &Off<'_>, start: u64, end: u64) -> Vec<Piece> {
    let waking = wait.waking_ts.or(wait.wakeup_ts).unwrap_or(end);
    let wakeup = wait.wakeup_ts.unwrap_or(waking).max(waking);
    let (to_waking, to_wakeup) = (waking.clamp(start, end), wakeup.clamp(start, end));
    let mut pieces = Vec::new();
    if to_waking > start {
        let mut asleep = blocked(scene, wait, off, start, to_waking);
        asleep.evidence.push(waker(scene, wait, waking));
        pieces.extend(stopped(scene, asleep));
    }
    let mut way = Vec::new();
    if to_wakeup > to_waking {
        let piece = Piece::new(to_waking, to_wakeup, Kind::WakeIpi, "");
        let line = format!("sched_wakeup at {}", scene.at(wakeup));
        way.push(piece.with(waker(scene, wait, waking)).with(line));
    }
    if end > to_wakeup {
        way.extend(queue(scene, &Queue::woken(to_wakeup, end, wait)));
    }
    // An interrupt on the CPU itself has woken that before the thread.
    let from_afar = wait.waker_cpu != wait.wakeup_cpu;
    let idle = idle_exit(scene, wait.wakeup_cpu, to_waking, end).filter(|_| from_afar);
    way = paint(way, idle.into_iter().collect());
    pieces.extend(stolen::cut(scene, way, wait.wakeup_cpu));
    pieces
}

/// Who ended the wait.
fn waker(scene: &Scene<'_>, wait: &Wait, waking: u64) -> String {
    let who = match &wait.waker {
        Some(waker) => named(&waker.comm, waker.tid),
        None => "somebody".to_owned(),
    };
    let within = match (wait.flags.in_irq, wait.flags.in_softirq) {
        (true, _) => ", in an interrupt that hit",
        (_, true) => ", in a softirq that hit",
        _ if scene.has(Set::Irq) => ", by",
        _ => ", by or in an interrupt that hit",
    };
    format!("sched_waking at {} on CPU {}{within} {who}", scene.at(waking), wait.waker_cpu)
}

/// From the decision to wake the thread until its CPU had left the idle state it was in.
fn idle_exit(scene: &Scene<'_>, cpu: u32, waking: u64, end: u64) -> Option<Piece> {
    let idle = |event: &&Event| match event.what {
        What::Idle { state } => Some((event.ts, state)),
        _ => None,
    };
    let (entered, state) =
        scene.before(cpu, waking.saturating_add(1)).iter().rev().find_map(idle)?;
    let state = state?;
    let (left, _) = scene
        .between(cpu, waking.saturating_add(1), end)
        .iter()
        .filter_map(idle)
        .find(|(_, state)| state.is_none())?;
    let line = format!(
        "cpu_idle CPU {cpu}: state {state} from {} until {}",
        scene.at(entered),
        scene.at(left)
    );
    Some(Piece::new(waking, left, Kind::IdleExit, format!("state {state}")).with(line))
}
