//! A CPU whose clock changes stands still for that, and runs slower once it has fallen.

use quietcore_bpf::What;
use quietcore_measure::{Kind, Nanos};

use super::paint::{Piece, paint};
use super::scene::Scene;

/// The longest that a CPU stands still for a new clock, in nanoseconds: firmware tables (`_PSS`) say 10 µs
/// mostly. Of longer silence a change within it is evidence, but not the cause.
const TRANSITION: u64 = 100_000;

/// A change of one CPU's clock, in kHz.
struct Change {
    at: u64,
    before: u32,
    after: u32,
}

/// Cuts out of pieces that follow one another on one CPU what they owe to its clock.
pub(super) fn cut(scene: &Scene<'_>, mut pieces: Vec<Piece>, cpu: u32) -> Vec<Piece> {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return pieces };
    let (start, end) = (first.start, last.end);
    let changes = changes(scene, cpu, start, end);
    for change in &changes {
        let within = |piece: &&mut Piece| piece.start <= change.at && change.at <= piece.end;
        let silent = pieces.iter_mut().filter(|piece| piece.kind == Kind::HostOrFirmware);
        silent.filter(within).for_each(|piece| {
            piece.evidence.push(line(scene, cpu, change));
            if piece.len() <= TRANSITION {
                piece.kind = Kind::Frequency;
            }
        });
    }
    let mut layers = Vec::new();
    for (n, change) in changes.iter().enumerate().filter(|(_, change)| change.after < change.before)
    {
        let until = changes.get(n + 1).map_or(end, |next| next.at);
        let own = pieces.iter().filter(|piece| piece.kind == Kind::User);
        layers.extend(own.filter_map(|piece| slowed(scene, cpu, piece, change, until)));
    }
    paint(pieces, layers)
}

/// The time that work takes longer for having fewer cycles in it, laid to its end.
fn slowed(
    scene: &Scene<'_>,
    cpu: u32,
    piece: &Piece,
    change: &Change,
    until: u64,
) -> Option<Piece> {
    let (from, to) = (piece.start.max(change.at), piece.end.min(until));
    let len = to.checked_sub(from)?;
    let missing = u128::from(change.before - change.after);
    let more = u64::try_from(u128::from(len) * missing / u128::from(change.before)).ok()?;
    let why =
        format!("{} of {} at the clock before, if it is all cycles", Nanos(len - more), Nanos(len));
    let piece = Piece::new(to - more, to, Kind::Frequency, "");
    (more > 0).then(|| piece.with(line(scene, cpu, change)).with(why))
}

fn line(scene: &Scene<'_>, cpu: u32, change: &Change) -> String {
    let mhz = |khz: u32| f64::from(khz) / 1e3;
    let (before, after) = (mhz(change.before), mhz(change.after));
    format!("cpu_frequency CPU {cpu} at {}: {before} MHz, then {after} MHz", scene.at(change.at))
}

/// The changes of a CPU's clock in a stretch, by time, whichever CPU made them.
fn changes(scene: &Scene<'_>, cpu: u32, start: u64, end: u64) -> Vec<Change> {
    let clocks = scene.clocks();
    let clocks = &clocks[clocks.partition_point(|event| event.ts < start)..];
    let within = clocks.iter().take_while(|event| event.ts <= end);
    let changes = within.filter_map(|event| match event.what {
        What::Frequency { of, before: Some(before), khz } if of == cpu && before != khz => {
            Some(Change { at: event.ts, before, after: khz })
        }
        _ => None,
    });
    changes.collect()
}
