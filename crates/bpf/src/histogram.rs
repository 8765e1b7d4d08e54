//! How long waits were, as the programs count them.

/// How long the watched threads have waited, waits below the threshold included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    /// Until somebody woke them; without the sleeps that were asked for.
    pub blocked: Histogram,
    /// On a run queue.
    pub run_queue: Histogram,
}

/// A histogram in steps of a quarter of a power of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Waits by bucket.
    pub counts: Vec<u64>,
    /// The sum of all waits in nanoseconds.
    pub sum_ns: u64,
}

impl Histogram {
    /// Buckets that the programs count in.
    pub(crate) const BUCKETS: u32 = 256;

    /// How many waits there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many waits were shorter than each power of two of nanoseconds, from 2 on.
    pub fn below_powers_of_two(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut below = 0;
        self.counts.chunks_exact(4).enumerate().map_while(move |(power, quarter)| {
            below += quarter.iter().sum::<u64>();
            // The first chunk holds 0, too.
            Some((2u64.checked_shl(u32::try_from(power).ok()?).filter(|&v| v > 0)?, below))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_towards_the_longest() {
        let mut counts = vec![0; Histogram::BUCKETS as usize];
        // 0 or 1 ns; 8 to 10 ns; 14 to 16 ns; 1024 to 1280 ns.
        for bucket in [0, 12, 15, 40] {
            counts[bucket] = 1;
        }
        let histogram = Histogram { counts, sum_ns: 0 };
        let below: Vec<_> = histogram.below_powers_of_two().collect();
        assert_eq!(below[..5], [(2, 1), (4, 1), (8, 1), (16, 3), (32, 3)]);
        assert_eq!((below[9], below[10]), ((1024, 3), (2048, 4)));
        assert_eq!(below.last(), Some(&(1 << 63, 4)));
        assert_eq!(histogram.count(), 4);
    }

    #[test]
    fn nothing_counted_is_no_bucket() {
        assert_eq!(Histogram::default().below_powers_of_two().count(), 0);
    }
}
