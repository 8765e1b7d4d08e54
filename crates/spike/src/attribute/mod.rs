//! What a stretch of a thread's life was made of. Pure: the same events give the same answer.
//!
//! First the window is cut into stretches in which the thread had a CPU or had none (`track`).
//! Each of these is cut again by what was going on, innermost first (`oncpu`, `offcpu`). A cut
//! never leaves a hole, so the segments add up to the window; what no event covers says so.

mod blocked;
mod clock;
mod edges;
mod offcpu;
mod oncpu;
mod paint;
mod queue;
mod scene;
mod still;
mod stolen;
mod track;

use std::sync::Arc;

use quietcore_bpf::{Event, Pause, Set, Wait};
use quietcore_measure::{Nanos, Segment, Spike, Thread};

use crate::kallsyms::Kallsyms;
use paint::Piece;
use scene::Scene;
use track::State;

pub use blocked::sleeps_in;
pub(crate) use scene::began;
pub use stolen::Gaps;

/// A stretch of one thread's life that has to be explained.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Whose.
    pub thread: Thread,
    /// When it began, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The CPU on which the thread was when it ended.
    pub cpu: u32,
    /// The thread does nothing but look at the clock, and this is time in which it could not: none
    /// of it is the thread's own.
    pub spins: bool,
    /// Of such a thread, all its gaps, this one among them; `None` where they are not known.
    pub gaps: Option<Arc<Gaps>>,
}

/// What was recorded around a window.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Of every CPU that matters, from some time before the window until its end or later.
    pub events: Vec<Event>,
    /// The thread's waits that overlap with the window.
    pub waits: Vec<Wait>,
    /// The times in which a runtime had stopped the thread's process.
    pub pauses: Vec<Pause>,
    /// What was recorded without a gap in the programs: what no event shows did not happen.
    pub sets: Vec<Set>,
    /// The hypervisor tells what it takes of the CPUs: what no event shows it did not take.
    pub hears_of_steal: bool,
    /// Why that is not all.
    pub incomplete: Option<String>,
}

/// What the window was made of.
pub fn attribute(window: &Window, seen: &Seen, kernel: &Kallsyms) -> Spike {
    let scene = Scene::new(window, seen, kernel);
    let own = oncpu::own(&scene);
    let mut pieces = Vec::new();
    for stretch in track::track(&scene) {
        pieces.extend(match &stretch.state {
            State::On { cpu } => oncpu::explain(&scene, &own, stretch.start, stretch.end, *cpu),
            State::Off(off) => offcpu::explain(&scene, stretch.start, stretch.end, off),
        });
    }
    if window.spins {
        pieces = edges::edges(&scene, pieces);
    }
    let segments = paint::joined(pieces).into_iter().map(|piece| segment(window, piece)).collect();
    Spike {
        start_ns: window.start_ns,
        len_ns: Nanos(window.end_ns.saturating_sub(window.start_ns)),
        thread: window.thread.clone(),
        cpu: window.cpu,
        segments,
        incomplete: seen.incomplete.clone(),
        stack: Vec::new(),
    }
}

fn segment(window: &Window, piece: Piece) -> Segment {
    Segment {
        at_ns: Nanos(piece.start - window.start_ns),
        len_ns: Nanos(piece.end - piece.start),
        kind: piece.kind,
        by: piece.by,
        evidence: piece.evidence,
    }
}
