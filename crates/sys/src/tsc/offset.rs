//! How far the counters of two CPUs are apart.
//!
//! Two pinned threads play ping-pong through memory. The answer's time stamp was taken after the
//! question's and before the receipt's, which bounds the offset from both sides in every round;
//! the tightest round wins. No symmetry of the two ways is assumed, so the bounds are proof.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quietcore_measure::{CpuSet, Reading};

use super::ticks_ordered;
use crate::sched;

/// Enough for the bounds to settle; on an idle machine a round takes some 100 ns.
const ROUNDS: u64 = 2_000;

/// Patience with a CPU that is busy otherwise.
const PATIENCE: Duration = Duration::from_millis(250);

/// How far a CPU's counter is from the reference CPU's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The CPU looked at.
    pub cpu: usize,
    /// The CPU it is compared with.
    pub reference: usize,
    /// The bounds, or why there are none.
    pub bounds: Reading<OffsetBounds>,
}

/// The CPU's counter minus the reference's, in ticks, lies between these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetBounds {
    /// At least this.
    pub low: i64,
    /// At most this.
    pub high: i64,
}

impl OffsetBounds {
    const UNKNOWN: Self = Self { low: i64::MIN, high: i64::MAX };

    /// The least offset that the bounds prove, without its sign: 0 if they include 0.
    pub fn proven(&self) -> u64 {
        match (self.low, self.high) {
            (low, _) if low > 0 => low.unsigned_abs(),
            (_, high) if high < 0 => high.unsigned_abs(),
            _ => 0,
        }
    }

    /// The greatest offset that the bounds allow, without its sign.
    pub fn widest(&self) -> u64 {
        self.low.unsigned_abs().max(self.high.unsigned_abs())
    }

    /// One round: asked at `asked` and received at `received` by the reference's counter, stamped
    /// `stamped` by the other's in between.
    fn narrow(&mut self, asked: u64, stamped: u64, received: u64) {
        let difference = |a: u64, b: u64| a.wrapping_sub(b) as i64;
        self.low = self.low.max(difference(stamped, received));
        self.high = self.high.min(difference(stamped, asked));
    }
}

/// Compares every one of `cpus` with CPU 0, or with the lowest CPU this process may run on where
/// that is another one.
pub(super) fn check(cpus: &CpuSet) -> Vec<Offset> {
    let allowed = sched::affinity(sched::CALLER).unwrap_or_default();
    let reference = match allowed.contains(0) {
        true => Some(0),
        false => allowed.or(cpus).lowest(),
    };
    let Some(reference) = reference else { return Vec::new() };
    cpus.iter()
        .filter(|&cpu| cpu != reference)
        .map(|cpu| Offset { cpu, reference, bounds: compare(reference, cpu) })
        .collect()
}

/// One cache line per direction, so that neither side writes where the other one spins.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

#[derive(Default)]
struct Table {
    question: Line,
    answer: Line,
    stamp: Line,
    over: AtomicBool,
}

fn compare(reference: usize, cpu: usize) -> Reading<OffsetBounds> {
    let table = Arc::new(Table::default());
    let (asking, answering) = (table.clone(), table);
    let answerer = std::thread::Builder::new()
        .name(format!("offset-{cpu}"))
        .spawn(move || placed(cpu).map(|()| answer(&answering)));
    let asker = std::thread::Builder::new().name(format!("offset-{reference}")).spawn(move || {
        let bounds = placed(reference).map(|()| ask(&asking));
        asking.over.store(true, Ordering::Release);
        bounds
    });
    let (Ok(answerer), Ok(asker)) = (answerer, asker) else {
        return Reading::Failed("no thread could be started for the comparison".to_owned());
    };
    let bounds = asker.join();
    match (answerer.join(), bounds) {
        (Ok(Err(why)), _) | (_, Ok(Err(why))) => Reading::Failed(why),
        (Ok(Ok(())), Ok(Ok(OffsetBounds::UNKNOWN))) => Reading::Failed(format!(
            "CPU {reference} and CPU {cpu} did not get to run at the same time within {} ms",
            PATIENCE.as_millis()
        )),
        (Ok(Ok(())), Ok(Ok(bounds))) => Reading::Measured(bounds),
        (Err(_), _) | (_, Err(_)) => Reading::Failed("the comparison panicked".to_owned()),
    }
}

fn placed(cpu: usize) -> Result<(), String> {
    sched::place(sched::CALLER, &[cpu].into_iter().collect()).map_err(|error| error.to_string())
}

fn ask(table: &Table) -> OffsetBounds {
    let start = Instant::now();
    let mut bounds = OffsetBounds::UNKNOWN;
    for round in 1..=ROUNDS {
        let asked = ticks_ordered();
        table.question.0.store(round, Ordering::Release);
        let mut spins = 0u32;
        while table.answer.0.load(Ordering::Acquire) != round {
            spins = spins.wrapping_add(1);
            // Looking at the clock is dearer than a round; now and then is enough.
            if spins % 1024 == 0 && start.elapsed() > PATIENCE {
                return bounds;
            }
            std::hint::spin_loop();
        }
        let received = ticks_ordered();
        bounds.narrow(asked, table.stamp.0.load(Ordering::Relaxed), received);
    }
    bounds
}

fn answer(table: &Table) {
    let mut answered = 0;
    while !table.over.load(Ordering::Acquire) {
        let question = table.question.0.load(Ordering::Acquire);
        if question == answered {
            std::hint::spin_loop();
            continue;
        }
        table.stamp.0.store(ticks_ordered(), Ordering::Relaxed);
        table.answer.0.store(question, Ordering::Release);
        answered = question;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_the_true_offset_whatever_the_delays() {
        // The other counter is 1,000 ticks ahead; both ways take odd and unequal times.
        let mut bounds = OffsetBounds::UNKNOWN;
        for (there, back) in [(5, 900), (70, 60), (400, 3)] {
            let asked = 50_000;
            let stamped = asked + there + 1_000;
            bounds.narrow(asked, stamped, asked + there + back);
            assert!(bounds.low <= 1_000 && 1_000 <= bounds.high, "{bounds:?}");
        }
        assert_eq!(bounds, OffsetBounds { low: 997, high: 1_005 });
        assert_eq!((bounds.proven(), bounds.widest()), (997, 1_005));
    }

    #[test]
    fn bounds_around_zero_prove_nothing() {
        let bounds = OffsetBounds { low: -40, high: 30 };
        assert_eq!((bounds.proven(), bounds.widest()), (0, 40));
        let behind = OffsetBounds { low: -50, high: -20 };
        assert_eq!((behind.proven(), behind.widest()), (20, 50));
    }

    #[test]
    fn every_cpu_gets_bounds_or_a_reason() {
        let cpus = sched::affinity(sched::CALLER).unwrap();
        let with_one_too_many = cpus.iter().chain([9_000]).collect();
        let offsets = check(&with_one_too_many);
        assert_eq!(offsets.len(), cpus.len());
        for offset in offsets {
            match offset.bounds {
                Reading::Measured(bounds) => assert!(bounds.low <= bounds.high, "{bounds:?}"),
                reason => assert!(!reason.why().is_empty()),
            }
        }
    }
}
