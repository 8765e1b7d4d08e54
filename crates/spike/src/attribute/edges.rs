//! How a spinning thread was interrupted, and got back: time that no event covers.
//!
//! The thread itself does not stop. So silent time beside an interruption can be the way there or
//! back, or a stop of the whole CPU by the host or the firmware that ended in an interrupt. Which of
//! both is told by when the interrupt was due: a timer's expiry, or another CPU's request.
//!
//! - Silent time that **began when the interrupt was due, or later**, is its delivery, for without the
//!   interrupt the CPU would not have been stopped. Up to [`LATE`].
//! - Of silent time that **began before**, the part until the interrupt was due is not its own.
//!   What follows is, up to [`ENTRY`]; if it is more, the stop has outlasted the interrupt's moment
//!   by itself and all of it is the host's. Where the first part is as short as the way back from
//!   the interruption before, it is that, and the rest began when the interrupt was due.
//! - Where it is **not known** when the interrupt was due, time up to [`ENTRY`] is its delivery.

use quietcore_measure::{Kind, Nanos};

use super::paint::Piece;
use super::scene::Scene;

/// Time before an interruption that is taken for its entry, in nanoseconds. On the metal it is below
/// 1 µs. To a guest each interrupt is delivered by the host, which stops it first: 7.4 to 12.9 µs
/// were measured between the last look at the clock and the first tracepoint.
const ENTRY: u64 = 16_000;

/// The same after an interruption: registers are restored, caches are cold. 0.3 to 5.3 µs (P99) were
/// measured in a guest.
const EXIT: u64 = 6_000;

/// The same after another task had the CPU. The switch back is seen before it is made, and the caches
/// are cold: 2.8 to 11.3 µs (P99) were measured in a guest.
const SWITCH: u64 = 12_000;

/// The longest delivery of an interrupt that is known to have been due, in nanoseconds. What a host
/// does by itself before it lets the guest go on, interrupts and softirqs of its own, takes tens of
/// microseconds. If it gives the CPU to somebody else, that is for a slice of its scheduler: 700 µs
/// and more.
const LATE: u64 = 200_000;

/// How long before an interrupt is due it may stop the CPU, in nanoseconds. KVM wakes up to 5 µs
/// early (`lapic_timer_advance_ns`) and then waits.
const EARLY: u64 = 5_000;

/// Gives silent time beside interruptions to these. It only cuts pieces and names them anew.
pub(super) fn edges(scene: &Scene<'_>, pieces: Vec<Piece>) -> Vec<Piece> {
    let mut told = Vec::with_capacity(pieces.len());
    for (at, piece) in pieces.iter().enumerate() {
        if !is_open(piece) {
            told.push(piece.clone());
            continue;
        }
        // What the hypervisor took has no way there or back: its clock counts all of it.
        let is_interruption = |piece: &&Piece| !is_open(piece) && piece.kind != Kind::Steal;
        let beside = |at: usize| pieces.get(at).filter(is_interruption);
        let before = at.checked_sub(1).and_then(beside);
        let next = next(&pieces, at);
        let due = beside(next).map(|after| after.due);
        let cut = due.map_or(piece.end, |due| entry(piece, before.map_or(0, exit), due));
        let first = Piece { end: cut, ..piece.clone() };
        let last = Piece { start: cut, ..piece.clone() };
        told.push(match before {
            Some(before) if first.len() <= exit(before) => part_of(before, first, "exit"),
            _ => first,
        });
        if last.len() > 0 {
            let entry = part_of(&pieces[carried(&pieces, next)], last, "entry");
            told.push(match due.flatten() {
                Some(due) => entry.with(format!("it was due at {}", scene.at(due))),
                None => entry,
            });
        }
    }
    told.retain(|piece| piece.start < piece.end);
    told
}

/// What comes after a piece. What the hypervisor took lies at the end of the time in which it did, for
/// want of knowing better: it does not part silence from the interrupt that was due.
fn next(pieces: &[Piece], at: usize) -> usize {
    let is_other = |n: &usize| pieces[*n].kind != Kind::Steal;
    (at + 1..pieces.len()).find(is_other).unwrap_or(at + 1)
}

/// From when on silent time is the entry of the interruption after it; its end where none of it is.
/// `back`: how long the way back from the interruption before it may be.
fn entry(silent: &Piece, back: u64, due: Option<u64>) -> u64 {
    let (start, end) = (silent.start, silent.end);
    if silent.len() <= back {
        return end;
    }
    // Where events are missing, another may have been there before.
    let due = due.filter(|due| *due <= end && silent.kind == Kind::HostOrFirmware);
    let (from, most) = match due {
        Some(due) if start < due && due - start <= back => (due, LATE),
        Some(due) if due <= start + EARLY => (start, LATE),
        Some(due) => (due, ENTRY),
        None => (start, ENTRY),
    };
    if end - from <= most { from } else { end }
}

/// How long the way back from an interruption may be.
fn exit(interruption: &Piece) -> u64 {
    if interruption.kind == Kind::Preempted { SWITCH } else { EXIT }
}

/// What is silent, as part of an interruption.
fn part_of(interruption: &Piece, silent: Piece, what: &str) -> Piece {
    let line = format!("{} of its {what}", Nanos(silent.len()));
    let (kind, by) = (interruption.kind, interruption.by.clone());
    Piece { kind, by, evidence: vec![line], ..silent }
}

/// The piece that an interruption was for: a call by another CPU that raised a softirq, or made the
/// scheduler look, was only sent to have that done. Interrupts that came meanwhile go before it.
fn carried(pieces: &[Piece], first: usize) -> usize {
    let carrier = &pieces[first];
    let interrupts = |piece: &Piece| {
        let kinds = [Kind::HardIrq, Kind::Timer, Kind::Tick, Kind::Ipi];
        kinds.contains(&piece.kind) || is_open(piece) && piece.len() <= EXIT
    };
    let then = (first + 1..pieces.len())
        .find(|&at| !interrupts(&pieces[at]))
        .filter(|&at| is_sent_for(&pieces[at]))
        .filter(|&at| pieces[at].len() > carrier.len());
    then.filter(|_| carrier.kind == Kind::Ipi).unwrap_or(first)
}

/// Whether another CPU can have asked for it. The softirqs of timers and of RCU are raised by a CPU's
/// own timer interrupt.
fn is_sent_for(piece: &Piece) -> bool {
    match piece.kind {
        Kind::Preempted => true,
        Kind::Softirq => !["TIMER", "HRTIMER", "RCU"].contains(&piece.by.as_str()),
        _ => false,
    }
}

fn is_open(piece: &Piece) -> bool {
    matches!(piece.kind, Kind::Unexplained | Kind::HostOrFirmware)
}
