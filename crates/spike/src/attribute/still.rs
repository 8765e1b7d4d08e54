//! A whole machine that stands still in the middle of an interrupt.

use quietcore_measure::{Kind, Nanos};

use super::paint::Piece;
use super::scene::Scene;

/// A timer's interrupt, or one that another CPU asked for, takes microseconds and waits for nothing.
/// If it goes on for longer than this, in nanoseconds, while nothing at all is recorded anywhere, the
/// machine stood still below it.
const STILL: u64 = 10_000_000;

/// Cuts out of such an interrupt the time in which no CPU did anything that is recorded: the host's,
/// or the firmware's. A device's handler is left alone; there are some that take long.
pub(super) fn split(scene: &Scene<'_>, piece: Piece) -> Vec<Piece> {
    let is_short_lived =
        matches!(piece.kind, Kind::Tick | Kind::Timer | Kind::Ipi | Kind::TlbShootdown);
    if !is_short_lived || piece.len() <= STILL {
        return vec![piece];
    }
    let within = |at: &u64| piece.start < *at && *at < piece.end;
    let mut moments: Vec<u64> = scene.everywhere().map(|event| event.ts).filter(within).collect();
    moments.extend([piece.start, piece.end]);
    moments.sort_unstable();
    let longest = moments.windows(2).max_by_key(|pair| pair[1] - pair[0]);
    let Some(&[from, to]) = longest.and_then(|pair| pair.first_chunk()) else { return vec![piece] };
    if to - from <= STILL {
        return vec![piece];
    }
    let line = format!(
        "no CPU did anything for {}, within an interrupt: {}",
        Nanos(to - from),
        piece.kind.name()
    );
    let still = Piece::new(from, to, Kind::HostOrFirmware, "").with(line);
    // What was due before it says nothing of the time after it.
    let after = Piece { start: to, due: None, ..piece.clone() };
    let before = Piece { end: from, ..piece };
    [before, still, after].into_iter().filter(|piece| piece.start < piece.end).collect()
}
