//! The jitter loop of a well-known article on quiet cores, for comparing with its figures.
//!
//! It differs from [`crate::spin`] in three ways that shape its result. Each turn contains 100
//! dummy iterations, which is most of its P50. It knows no start of a gap. And it writes its
//! turns to memory that nobody touched before, so that every 512th turn takes a page fault of its
//! own: twice in a thousand, which is its P99.9. All of that is kept here; the faults are counted.

use std::hint::black_box;
use std::sync::atomic::{AtomicI32, Ordering};

use quietcore_measure::{CpuSet, Nanos, Validity};
use quietcore_sys::Host;
use quietcore_sys::clock::KernelClock;
use quietcore_sys::tsc::{self, Clock, Source};

use crate::crew::{self, Post, SpikeError};
use crate::jitter::{note_conditions, online};

/// Turns of one run.
const TURNS: usize = 1_000_000;

/// Dummy iterations per turn.
const DUMMIES: i32 = 100;

/// What the article prints, for one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuArticle {
    /// The CPU.
    pub cpu: usize,
    /// Median turn.
    pub p50: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// 99.9th percentile.
    pub p99_9: Nanos,
    /// Longest turn.
    pub max: Nanos,
    /// Page faults that the loop took by writing down its turns.
    pub page_faults: u64,
    /// Times another task took its CPU.
    pub involuntary_switches: u64,
}

/// A run of the article's loop.
#[derive(Clone, Debug)]
pub struct Article {
    /// The clock that was used.
    pub clock: Clock,
    /// CPU by CPU.
    pub cpus: Vec<CpuArticle>,
    /// How far it can be trusted.
    pub validity: Validity,
}

impl Article {
    /// Runs the loop once on each of `cpus`, all at the same time.
    ///
    /// # Errors
    /// As for [`Jitter::run`](crate::Jitter::run).
    pub fn run(cpus: &CpuSet, fifo: Option<u8>, host: &Host) -> Result<Self, SpikeError> {
        // Locked memory would be faulted in before the loop begins, and the article's is not.
        let post = Post { cpus: cpus.clone(), fifo, sleeps: false, lock: false };
        post.check(&online(host))?;
        let clock = Clock::start(cpus);
        let work = crew::run(
            &post,
            &clock,
            |_| Ok(vec![0u64; TURNS]),
            |mut turns, start| {
                match clock.source() {
                    Source::Counter => spin(tsc::ticks, start, &mut turns),
                    Source::Kernel => spin(|| KernelClock::Monotonic.now(), start, &mut turns),
                }
                Ok(turns)
            },
            |_| {},
        )?;
        let mut validity = Validity::default();
        note_conditions(&mut validity, &work);
        let rate = clock.rate();
        let shares = work.shares.into_iter();
        let cpus = shares
            .map(|mut share| {
                share.result.sort_unstable();
                let at = |index: usize| Nanos(rate.ns(share.result[index]));
                CpuArticle {
                    cpu: share.cpu,
                    p50: at(TURNS / 2),
                    p99: at(TURNS / 100 * 99),
                    p99_9: at(TURNS / 1_000 * 999),
                    max: at(TURNS - 1),
                    page_faults: share.usage.minor_faults + share.usage.major_faults,
                    involuntary_switches: share.usage.involuntary_switches,
                }
            })
            .collect();
        Ok(Self { clock, cpus, validity })
    }
}

#[inline(never)]
fn spin(now: impl Fn() -> u64, start: u64, turns: &mut [u64]) {
    while now() < start {}
    let mut before = now();
    for turn in turns {
        // C's `for (volatile int j = 0; j < 100; j++) {}`: a load, an addition and a store, and a
        // load for the comparison. Relaxed atomics are those instructions and are not elided.
        let j = AtomicI32::new(0);
        let j = black_box(&j);
        while j.load(Ordering::Relaxed) < DUMMIES {
            j.store(j.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let after = now();
        *turn = after.wrapping_sub(before);
        before = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_sys::sched;

    #[test]
    fn its_percentiles_are_ordered_and_its_page_faults_are_seen() {
        let cpu = sched::affinity(sched::CALLER).unwrap().highest().unwrap();
        let cpus = [cpu].into_iter().collect();
        let article = Article::run(&cpus, None, &Host::live()).unwrap();
        let seen = article.cpus[0];
        assert_eq!(seen.cpu, cpu);
        assert!(seen.p50 <= seen.p99 && seen.p99 <= seen.p99_9 && seen.p99_9 <= seen.max);
        assert!(seen.p50 > Nanos(0));
    }
}
