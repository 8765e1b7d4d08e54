//! What recording costs, beside the HdrHistogram library with the very same buckets.
//!
//! All take turns within every round, so that a change of the clock or a neighbour hits them alike.
//! Times are those of the fastest round, ratios are taken within each round and their median shown.
//! Values are drawn beforehand, and records follow each other without pause, so that the time is
//! that of an instruction stream with nothing else to do. Without `--bench` (as
//! `cargo test --benches` runs it) a round or two show that it still works.
//!
//! On a shared and busy two-core virtual machine (AMD EPYC of family 26, 3.9 GHz), values spread over
//! four decades:
//!
//! | | ns | cycles | ratio |
//! | --- | --- | --- | --- |
//! | hdrhistogram 7.5.4 | 2.99 | 11.8 | 1.00 |
//! | `Hist` | 1.93 | 7.6 | 0.61 |
//! | `Hist` with one edge | 1.90 | 7.5 | 0.60 |
//! | `Window` | 1.92 | 7.6 | 0.71 |
//! | `GapStore`, full | 1.66 | 6.5 | 0.51 |

use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;
use quietcore_measure::{Gap, GapStore, Hist, HistConfig, Nanos, Window, WindowConfig};

const VALUES: usize = 1 << 14;

fn main() {
    let (rounds, passes) = match std::env::args().any(|arg| arg == "--bench") {
        // Turns of a third of a millisecond: most are over before the scheduler takes the CPU away.
        true => (301, 8),
        false => (2, 1),
    };
    println!("{rounds} rounds of {} values each", VALUES * passes);
    for (name, values) in [
        ("spread over four decades", spread(40_000.0)),
        ("within a factor of two and a half", spread(2.5)),
        ("all the same", vec![81_234; VALUES]),
    ] {
        println!("\n{name}");
        compare(&values, rounds, passes);
    }
}

/// The library comes first: the others are divided by it.
fn compare(values: &[u64], rounds: usize, passes: usize) {
    let config = HistConfig::default();
    // Fixed bounds: nothing to resize while recording.
    let mut theirs = Histogram::<u64>::new_with_bounds(1, config.highest, 2).expect("valid bounds");
    let mut ours = Hist::new(config);
    let mut edged = Hist::with_edges(config, &[10_000_000_000]);
    let mut window = Window::new(WindowConfig::default());
    let mut gaps = GapStore::new(1_000, 1_000, 1);
    let mut now = 0;
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); 5];
    let mut cycle_ns = f64::INFINITY;
    for _ in 0..rounds {
        cycle_ns = cycle_ns.min(chain_ns(50_000) / 4.0);
        let mut turn = 0;
        let mut run = |work: &mut dyn FnMut(&[u64])| {
            let start = Instant::now();
            for _ in 0..passes {
                work(black_box(values));
            }
            let ns = start.elapsed().as_nanos() as f64;
            times[turn].push(ns / (values.len() * passes) as f64);
            turn += 1;
        };
        run(&mut |values| values.iter().for_each(|&v| _ = black_box(theirs.record(v))));
        run(&mut |values| values.iter().for_each(|&v| ours.record(v)));
        run(&mut |values| values.iter().for_each(|&v| edged.record(v)));
        run(&mut |values| {
            for &v in values {
                now += 1_000;
                window.record(Nanos(now), v);
            }
        });
        run(&mut |values| {
            for &v in values {
                now += 1_000;
                gaps.push(Gap { start_ns: now, len_ns: Nanos(v) });
            }
        });
    }
    let _ = black_box((theirs.len(), ours.count(), edged.count(), window.late(), gaps.count()));
    let names = ["hdrhistogram record", "Hist", "Hist, one edge", "Window", "GapStore, full"];
    for (name, own) in names.iter().zip(&times) {
        let ratios = own.iter().zip(&times[0]).map(|(own, theirs)| own / theirs);
        let ns = own.iter().copied().fold(f64::INFINITY, f64::min);
        let cycles = ns / cycle_ns;
        println!("  {name:20} {ns:6.2} ns {cycles:6.1} cycles {:6.2} x", median(ratios));
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Latencies around 80 us, up to `factor` times smaller or larger, small ones as likely as large.
fn spread(factor: f64) -> Vec<u64> {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..VALUES).map(|_| (80_000.0 * factor.powf(next() - 0.5)) as u64).collect()
}

/// The time of one step of a chain of multiplications and exclusive-ors: each waits for the one
/// before, and together they take three cycles and one on every x86-64 core of the last fifteen
/// years. (The time-stamp counter does not count core cycles.)
fn chain_ns(steps: u64) -> f64 {
    let factor = black_box(0x2545_f491_4f6c_dd1du64);
    let mut product = black_box(3u64);
    let start = Instant::now();
    for step in 0..steps {
        product = (product ^ step).wrapping_mul(factor);
    }
    let _ = black_box(product);
    start.elapsed().as_nanos() as f64 / steps as f64
}
