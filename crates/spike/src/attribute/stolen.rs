//! What the hypervisor says it took of a CPU.
//!
//! Its word comes with the first thing that is recorded after that, and is of all the time since the
//! last. Where in between the CPU was gone is not known, so what could have been elsewhere is not said
//! to have been here: outside the window; or, of a thread that sees every gap, in its other gaps.

use quietcore_bpf::{Event, What};
use quietcore_measure::{Kind, Nanos};

use super::paint::{Piece, paint};
use super::scene::Scene;

/// The recorder does not ask again so soon, in nanoseconds: `ASK_AFTER` of its programs.
const ASKED_AFTER: u64 = 10_000;

/// Cuts what the hypervisor took out of pieces that follow one another, all of them on one CPU or
/// waiting for it.
pub(super) fn cut(scene: &Scene<'_>, mut pieces: Vec<Piece>, cpu: u32) -> Vec<Piece> {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return pieces };
    let (start, end) = (first.start, last.end);
    let told: Vec<_> = scene.overlapping(cpu, start, end).filter_map(Told::of).collect();
    let silent = pieces.iter_mut().filter(|piece| piece.kind == Kind::HostOrFirmware);
    for piece in silent {
        let says = told.iter().filter(|told| told.since < piece.end && piece.start < told.until);
        piece.evidence.extend(says.map(|told| told.line(scene, cpu)));
        if told.is_empty()
            && piece.len() >= ASKED_AFTER
            && scene.seen.hears_of_steal
            && scene.is_followed(cpu, end)
        {
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

    /// How much of it may have been outside `[from, to)`.
    fn room_elsewhere(self, scene: &Scene<'_>, cpu: u32, from: u64, to: u64) -> u64 {
        let overlap =
            |(start, end): (u64, u64)| end.min(self.until).saturating_sub(start.max(self.since));
        let here = to.saturating_sub(from);
        match &scene.window.gaps {
            // An idle CPU waits for nothing until it is woken, and that is what is recorded next.
            _ if scene.idles(cpu, self.since) => 0,
            Some(gaps) => {
                let later = &gaps[gaps.partition_point(|gap| gap.1 <= self.since)..];
                let gaps = later.iter().take_while(|gap| gap.0 < self.until);
                gaps.map(|gap| overlap(*gap)).sum::<u64>().saturating_sub(here)
            }
            None => (self.until - self.since).saturating_sub(here),
        }
    }
}
