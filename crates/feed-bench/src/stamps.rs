//! What it costs to time every message's stages: the engine's parts in memory with and without.

use std::time::Instant;

use crate::market::Sample;
use crate::pipe::Ends;
use crate::turns::{Row, Target};
use crate::whole::{Ours, frames};

/// Messages of a turn.
const TURN: usize = 100;

/// One row; `passes` over all messages.
pub fn rows(ends: &Ends, sample: &Sample, passes: usize) -> anyhow::Result<Vec<Row>> {
    let frames = frames(sample);
    let (mut with, mut without) = (Ours::new(ends)?, Ours::new(ends)?);
    let mut times = [const { Vec::new() }; 2];
    // The first pass is not counted.
    for pass in 0..=passes {
        with.load(sample)?;
        without.load(sample)?;
        for (turn, frames) in frames.chunks_exact(TURN).enumerate() {
            for place in 0..2 {
                let side = (place + turn) % 2;
                let took = match side {
                    0 => time::<true>(&mut with, frames)?,
                    _ => time::<false>(&mut without, frames)?,
                };
                if pass > 0 {
                    times[side].push(took);
                }
            }
        }
    }
    let what = "S2 to S5 with stages timed";
    Ok(vec![Row::of(what, &times[0], "the same without", &times[1], Target::More(60.0))])
}

fn time<const STAMPED: bool>(ours: &mut Ours, frames: &[Vec<u8>]) -> anyhow::Result<f64> {
    ours.seal(frames)?;
    let start = Instant::now();
    for _ in frames {
        ours.take::<STAMPED>()?;
    }
    Ok(start.elapsed().as_nanos() as f64 / frames.len() as f64)
}
