//! A whole machine that stands still in the middle of an interrupt, or of another thread's turn.

use quietcore_bpf::Set;
use quietcore_measure::{Kind, Nanos};

use super::paint::Piece;
use super::scene::{Runner, Scene};

/// A timer's interrupt, or one that another CPU asked for, takes microseconds and waits for nothing.
/// If it goes on for longer than this, in nanoseconds, while nothing at all is recorded anywhere, the
/// machine stood still below it.
const STILL: u64 = 10_000_000;

/// While two threads want a CPU its tick goes on, on `nohz_full` CPUs, too, unless the one that has it
/// is of a real-time class (kernel/sched/core.c, `sched_can_stop_tick`). In so many nanoseconds there
/// are five, at the lowest rate that a kernel can have.
const TICKS: u64 = 50_000_000;

/// A softirq's handler goes on with interrupts on, and is given a few milliseconds (`MAX_SOFTIRQ_TIME`,
/// `netdev_budget_usecs`). Where it goes on for longer than this, in nanoseconds, and nothing else is
/// recorded, it stood still with the machine.
const SOFTIRQ: u64 = 200_000_000;

/// Cuts out of a piece of an interrupt the time in which no CPU did anything that is recorded: the
/// host's, or the firmware's. A device's handler is left alone; there are some that take long.
pub(super) fn split(scene: &Scene<'_>, piece: Piece) -> Vec<Piece> {
    match piece.kind {
        Kind::Tick | Kind::Timer | Kind::Ipi | Kind::TlbShootdown => {
            let within = format!("within an interrupt: {}", piece.kind.name());
            cut(scene, piece, STILL, &within)
        }
        Kind::Softirq => cut(scene, piece, SOFTIRQ, "within a softirq"),
        _ => vec![piece],
    }
}

/// The same of a piece in which another thread had the CPU that this one wanted.
pub(super) fn split_turn(
    scene: &Scene<'_>,
    piece: Piece,
    runner: Option<Runner<'_>>,
) -> Vec<Piece> {
    let is_ticking = runner.is_some_and(|runner| !runner.is_idle() && !runner.is_real_time());
    let is_recorded = scene.has(Set::Irq) && scene.seen.incomplete.is_none();
    match is_ticking && is_recorded {
        true => cut(scene, piece, TICKS, "not even a tick, though two threads wanted the CPU"),
        false => vec![piece],
    }
}

/// Cuts out the longest silence of all CPUs, if it is longer than `limit`.
fn cut(scene: &Scene<'_>, piece: Piece, limit: u64, why: &str) -> Vec<Piece> {
    if piece.len() <= limit {
        return vec![piece];
    }
    let within = |at: &u64| piece.start < *at && *at < piece.end;
    let mut moments: Vec<u64> = scene.everywhere().map(|event| event.ts).filter(within).collect();
    moments.extend([piece.start, piece.end]);
    moments.sort_unstable();
    let longest = moments.windows(2).max_by_key(|pair| pair[1] - pair[0]);
    let Some(&[from, to]) = longest.and_then(|pair| pair.first_chunk()) else { return vec![piece] };
    if to - from <= limit {
        return vec![piece];
    }
    let line = format!("no CPU did anything for {}, {why}", Nanos(to - from));
    let still = Piece::new(from, to, Kind::HostOrFirmware, "").with(line);
    // What was due before it says nothing of the time after it.
    let after = Piece { start: to, due: None, ..piece.clone() };
    let before = Piece { end: from, ..piece };
    [before, still, after].into_iter().filter(|piece| piece.start < piece.end).collect()
}
