//! Whether the jitter loop notices what is stolen from it, and how well it measures the loss.
//!
//! The ground truth is the thief's own log, in ticks of the same counter. A stall counts as seen
//! if a gap encloses it: noise of the host makes gaps longer, never a seen stall unseen.

use std::sync::atomic::{AtomicBool, Ordering};

use quietcore_measure::{CpuSet, Gap, Nanos};
use quietcore_spike::{Jitter, JitterSettings};
use quietcore_sys::{Host, sched};

#[path = "../examples/stall.rs"]
#[allow(dead_code, reason = "the example's main is not called here")]
mod stall;

/// Half of them burn. So many keep the medians of a busy machine within some 200 ns.
const STALLS: usize = 6_000;
const BURN_NS: u64 = 20_000;

/// The gap that encloses an interval, if there is one; `slack` is what the time line may be off.
fn enclosing(gaps: &[Gap], begin: u64, end: u64, slack: u64) -> Option<Gap> {
    let after = gaps.partition_point(|gap| gap.start_ns <= begin + slack);
    let gap = *gaps.get(after.checked_sub(1)?)?;
    (gap.start_ns + gap.len_ns.0 + slack >= end).then_some(gap)
}

fn median(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
#[ignore = "needs root (SCHED_FIFO) and 5 s: cargo test -p quietcore-spike --test recall -- --ignored"]
fn root_stolen_time_is_seen_and_measured() {
    let cpu = sched::affinity(sched::CALLER).unwrap().highest().unwrap();
    let cpus: CpuSet = [cpu].into_iter().collect();
    let stop = AtomicBool::new(false);
    let mut thief = None;
    // In a class above all other work, and below the thief's: a stall that falls into another
    // task's time slice would be enclosed by a gap, too, but by one that says nothing about it.
    let settings = JitterSettings {
        fifo: Some(10),
        sampled: 2_000_000,
        ..JitterSettings::new(cpus, Nanos::from_secs(120))
    };
    let jitter = Jitter::run(&settings, &Host::live(), &stop, |elapsed| {
        // The thief starts once the loop turns, and its end ends the measurement.
        if elapsed > Nanos(0) && thief.is_none() {
            thief = Some(std::thread::spawn(move || stall::steal(cpu, STALLS, BURN_NS, 7)));
        }
        if thief.as_ref().is_some_and(|thief| thief.is_finished()) {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    let stalls = thief.unwrap().join().unwrap().unwrap();
    let seen = &jitter.cpus[0];
    assert_eq!(seen.omitted, 0, "this host has more gaps than can be kept to match");

    let slack = jitter.start_error().0;
    let mut overheads = [Vec::new(), Vec::new()];
    let mut unseen = 0;
    for stall in &stalls {
        let [begin, end] = [stall.begin, stall.end].map(|t| jitter.timebase.monotonic_ns(t));
        match enclosing(&seen.gaps, begin, end, slack) {
            Some(gap) => {
                overheads[usize::from(stall.burnt)].push(gap.len_ns.0 as i64 - (end - begin) as i64)
            }
            None => unseen += usize::from(stall.burnt),
        }
    }
    let burns = stalls.iter().filter(|stall| stall.burnt).count();
    let recall = (burns - unseen) as f64 / burns as f64;
    // A stall of no length shows what every stall costs on top: two switches between tasks, whose
    // cost varies by more than the loop's error, so that medians are compared and not pairs.
    let none = median(&mut overheads[0]);
    let error = median(&mut overheads[1]) - none;
    println!(
        "CPU {cpu}: {burns} stalls of {} µs, {unseen} unseen (recall {:.3} %), median error \
         {error} ns on top of the {none} ns of a stall of no length; {:.1} % of the CPU was taken",
        BURN_NS / 1_000,
        recall * 100.0,
        seen.stolen_ppm() / 1e4
    );
    assert!(burns >= 1_000, "{burns}");
    assert!(recall >= 0.999, "recall {recall}");
    assert!(error.abs() <= 1_000, "median error {error} ns");
}

#[test]
fn a_stall_is_seen_only_if_a_gap_encloses_it() {
    let gap = |start_ns, len| Gap { start_ns, len_ns: Nanos(len) };
    let gaps = [gap(1_000, 500), gap(5_000, 30_000)];
    assert_eq!(enclosing(&gaps, 6_000, 26_000, 0), Some(gaps[1]));
    assert_eq!(enclosing(&gaps, 1_100, 1_700, 0), None);
    assert_eq!(enclosing(&gaps, 1_100, 1_550, 50), Some(gaps[0]));
    assert_eq!(enclosing(&gaps, 900, 1_200, 0), None);
    assert_eq!(enclosing(&gaps, 40_000, 41_000, 0), None);
}
