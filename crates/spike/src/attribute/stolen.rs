//! What the hypervisor says it took of a CPU.
//!
//! Its word comes with the first thing that is recorded after that, and is of all the time since it was
//! asked last. Where in between the CPU was gone is not known, so what could have been elsewhere is not
//! said to have been here: outside the window; or, of a thread that sees every gap, in its other gaps.

use quietcore_bpf::{Event, What};
use quietcore_measure::{Kind, Nanos};

use super::paint::{Piece, paint};
use super::scene::Scene;

/// The recorder does not ask again so soon, in nanoseconds: `ASK_AFTER` of its programs.
const ASKED_AFTER: u64 = 10_000;

/// All gaps of a thread that never stops looking at the clock.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// In this time.
    known: (u64, u64),
    /// When each began and ended, by time.
    all: Vec<(u64, u64)>,
    /// How long those before each are together.
    sums: Vec<u64>,
}

impl Gaps {
    /// The thread is known to have had its CPU from `from` until `until`, on CLOCK_MONOTONIC, but in
    /// these gaps. They must hold every gap in which a hypervisor may have run something else.
    pub fn new(from: u64, until: u64, mut all: Vec<(u64, u64)>) -> Self {
        all.sort_unstable();
        let mut sum = 0;
        let mut sums = vec![0];
        sums.extend(all.iter().map(|(start, end)| {
            sum += end.saturating_sub(*start);
            sum
        }));
        Self { known: (from, until), all, sums }
    }

    /// In how much of a stretch the thread may have been without its CPU.
    fn room(&self, start: u64, end: u64) -> u64 {
        let (from, until) = (self.known.0.clamp(start, end), self.known.1.clamp(start, end));
        let unknown = (end - start) - until.saturating_sub(from);
        let first = self.all.partition_point(|gap| gap.1 <= from);
        let last = self.all.partition_point(|gap| gap.0 < until).max(first);
        let (Some(begin), Some(finish)) = (self.all[..last].get(first), self.all[..last].last())
        else {
            return unknown;
        };
        let beyond = from.saturating_sub(begin.0) + finish.1.saturating_sub(until);
        unknown + (self.sums[last] - self.sums[first]).saturating_sub(beyond)
    }
}

/// Cuts what the hypervisor took out of pieces that follow one another, all of them on one CPU or
/// waiting for it.
pub(super) fn cut(scene: &Scene<'_>, pieces: Vec<Piece>, cpu: u32) -> Vec<Piece> {
    let mut done = Vec::with_capacity(pieces.len());
    for pieces in pieces.chunk_by(|a, b| wants_cpu(a) == wants_cpu(b)) {
        done.extend(match wants_cpu(&pieces[0]) {
            true => cut_one(scene, pieces.to_vec(), cpu),
            false => pieces.to_vec(),
        });
    }
    done
}

/// Who is throttled has no use for the CPU.
fn wants_cpu(piece: &Piece) -> bool {
    !matches!(piece.kind, Kind::CpuQuota | Kind::RtThrottled)
}

fn cut_one(scene: &Scene<'_>, mut pieces: Vec<Piece>, cpu: u32) -> Vec<Piece> {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return pieces };
    let (start, end) = (first.start, last.end);
    let told: Vec<_> = scene.overlapping(cpu, start, end).filter_map(Told::of).collect();
    let answers = scene.seen.hears_of_steal && scene.seen.incomplete.is_none();
    let nothing = told.is_empty() && answers && scene.is_followed(cpu, end);
    for piece in pieces.iter_mut().filter(|piece| piece.kind == Kind::HostOrFirmware) {
        let says = told.iter().filter(|told| told.since < piece.end && piece.start < told.until);
        piece.evidence.extend(says.map(|told| told.line(scene, cpu)));
        if nothing && piece.len() >= ASKED_AFTER {
            piece.evidence.push(format!("the hypervisor says it took nothing of CPU {cpu}"));
        }
    }
    let layers = told.iter().filter_map(|told| told.within(scene, cpu, start, end));
    let layers = layers.collect();
    paint(pieces, layers)
}

/// So much was taken in this time.
#[derive(Clone, Copy)]
struct Told {
    ns: u64,
    since: u64,
    until: u64,
}

impl Told {
    fn of(event: &Event) -> Option<Self> {
        match event.what {
            What::Steal { ns, since } => {
                Some(Self { ns, since: since.min(event.ts), until: event.ts })
            }
            _ => None,
        }
    }

    fn line(self, scene: &Scene<'_>, cpu: u32) -> String {
        let [since, until] = [self.since, self.until].map(|ts| scene.at(ts));
        format!("the hypervisor took {} of CPU {cpu} between {since} and {until}", Nanos(self.ns))
    }

    /// What of it was within a stretch, at least. It is laid to the end, for a CPU that comes back has
    /// an interrupt waiting, more often than not.
    fn within(self, scene: &Scene<'_>, cpu: u32, start: u64, end: u64) -> Option<Piece> {
        let (from, to) = (self.since.max(start), self.until.min(end));
        let here = self.ns.saturating_sub(self.room_elsewhere(scene, cpu, from, to));
        let here = here.min(to.saturating_sub(from));
        let piece = Piece::new(to - here, to, Kind::Steal, "").with(self.line(scene, cpu));
        (here > 0).then(|| match here < self.ns {
            true => piece.with(format!("at least {} of that in this stretch", Nanos(here))),
            false => piece,
        })
    }

    /// How much of it may have been outside `[from, to)`. An idle CPU waits for nothing until it is
    /// woken.
    fn room_elsewhere(self, scene: &Scene<'_>, cpu: u32, from: u64, to: u64) -> u64 {
        let room = match &scene.window.gaps {
            Some(gaps) => gaps.room(self.since, self.until),
            None => {
                let idle = |start, end| scene.idle(cpu, start, end);
                let idle = idle(self.since, self.until).saturating_sub(idle(from, to));
                (self.until - self.since).saturating_sub(idle)
            }
        };
        room.saturating_sub(to.saturating_sub(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_room_in_gaps_is_what_counting_every_moment_says(
            known in (0u64..60, 0u64..60),
            lengths in prop::collection::vec((1u64..9, 0u64..9), 0..9),
            stretch in (0u64..60, 0u64..60),
        ) {
            let mut at = 0;
            let mut gap = |(between, len): (u64, u64)| {
                let start = at + between;
                at = start + len;
                (start, at)
            };
            let all: Vec<_> = lengths.into_iter().map(&mut gap).collect();
            let (start, end) = (stretch.0.min(stretch.1), stretch.0.max(stretch.1));
            let may_be_away = |moment: &u64| {
                let is_known = known.0 <= *moment && *moment < known.1;
                !is_known || all.iter().any(|gap| (gap.0..gap.1).contains(moment))
            };
            let expected = (start..end).filter(may_be_away).count() as u64;
            prop_assert_eq!(Gaps::new(known.0, known.1, all.clone()).room(start, end), expected);
        }
    }
}
