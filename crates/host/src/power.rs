//! Residency, busy time and frequency between two readings.

/// Share of the time above which a CPU counts as busy: below it the frequency says more about
/// waking up than about working.
pub const BUSY: f64 = 0.5;

/// Share of the rated frequency below which a busy CPU is held down by something.
pub const ALERT_BELOW: f64 = 0.9;

/// Frequency while not idle over the rated one, from two readings of (APERF, MPERF); `None` where
/// the counters stood still (emulators) or ran backwards (the CPU was offline between).
pub fn over_base(first: (u64, u64), second: (u64, u64)) -> Option<f64> {
    let aperf = second.0.checked_sub(first.0)? as f64;
    let mperf = second.1.checked_sub(first.1)? as f64;
    (aperf > 0.0 && mperf > 0.0).then(|| aperf / mperf)
}
