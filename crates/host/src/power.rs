//! Residency, busy time and frequency between two readings.

mod tables;

use quietcore_facts::Facts;
use quietcore_facts::idle::{IdleState, StateUse};
use quietcore_facts::power::{CpuPower, PowerReading};
use quietcore_measure::{Nanos, Reading};

pub use tables::{Moment, tables};

/// Share of the time above which a CPU counts as busy: below it the frequency says more about
/// waking up than about working.
pub const BUSY: f64 = 0.5;

/// Share of the rated frequency below which a busy CPU is held down by something.
pub const ALERT_BELOW: f64 = 0.9;

/// What a CPU did between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    /// Share of the time in C0, 0 to 1: at work, or polling for work while idle, as turbostat
    /// counts it.
    pub busy: Reading<f64>,
    /// Share of the time in each idle state, and how often it was left.
    pub states: Vec<Residency>,
    /// Share of the time in a sleep that has not ended yet: the kernel counts a state when it is
    /// left, and until then does not say which one it is.
    pub not_left: f64,
}

/// What one idle state had of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residency {
    /// Number of the state.
    pub index: usize,
    /// Share of the time, 0 to 1.
    pub share: f64,
    /// Times it was left.
    pub usage: u64,
}

/// Why somebody should look, now.
#[derive(Clone, Debug, PartialEq)]
pub enum Alert {
    /// A busy CPU runs below its rated frequency.
    Slow {
        /// The CPU.
        cpu: usize,
        /// Its frequency in MHz.
        mhz: f64,
        /// Its rated frequency in MHz.
        base_mhz: f64,
    },
    /// A CPU was slowed down for its heat.
    Throttled {
        /// The CPU.
        cpu: usize,
        /// How often, since the reading before.
        times: u64,
    },
}

impl Alert {
    /// In one line.
    pub fn text(&self) -> String {
        match self {
            Self::Slow { cpu, mhz, base_mhz } => format!(
                "CPU {cpu} is busy at {mhz:.0} MHz, {:.2} of its rated {base_mhz:.0} MHz",
                mhz / base_mhz
            ),
            Self::Throttled { cpu, times } => {
                format!("CPU {cpu} was slowed down for its heat, {times} times")
            }
        }
    }

    /// The CPU it is about.
    pub fn cpu(&self) -> usize {
        match self {
            Self::Slow { cpu, .. } | Self::Throttled { cpu, .. } => *cpu,
        }
    }
}

/// What a CPU with these idle states did between two readings. `polls` says that it does nothing
/// but poll while idle, although no idle state shows it (idle=poll).
pub fn activity(
    first: &CpuPower,
    second: &CpuPower,
    took: Nanos,
    states: &[IdleState],
    polls: bool,
) -> Activity {
    let nothing = |busy| Activity { busy, states: Vec::new(), not_left: 0.0 };
    if took.0 == 0 {
        return nothing(Reading::Failed("there is one reading only".to_owned()));
    }
    let asleep = idle_share(first, second);
    if second.idle.is_empty() {
        // No idle driver: an idle CPU polls, or halts without being counted.
        return nothing(match (polls, asleep) {
            (true, _) => Reading::Measured(1.0),
            (false, Some(idle)) => Reading::Measured(1.0 - idle),
            (false, None) => Reading::Failed("/proc/stat does not tell".to_owned()),
        });
    }
    let mut shares = residencies(&first.idle, &second.idle, took);
    let counted: f64 = shares.iter().map(|state| state.share).sum();
    // A sleep that began before the first reading and ended within is counted whole: what is more
    // than the CPU was idle in this time belongs to the time before.
    let most = asleep.unwrap_or(1.0).min(1.0);
    if counted > most && counted > 0.0 {
        shares.iter_mut().for_each(|state| state.share *= most / counted);
    }
    let is_poll = |index: usize| states.iter().any(|s| s.index == index && s.is_poll());
    let can_sleep = states.iter().any(|state| !state.is_poll() && !state.disabled);
    let not_left = match can_sleep {
        true => (most - counted).max(0.0).min(asleep.unwrap_or(0.0)),
        false => 0.0,
    };
    let slept: f64 = shares.iter().filter(|s| !is_poll(s.index)).map(|s| s.share).sum();
    let busy = (1.0 - slept - not_left).clamp(0.0, 1.0);
    Activity { busy: Reading::Measured(busy), states: shares, not_left }
}

/// Share of the time that `/proc/stat` calls idle: it counts a sleep that still lasts.
fn idle_share(first: &CpuPower, second: &CpuPower) -> Option<f64> {
    let (first, second) = (first.times?, second.times?);
    let grown = |of: fn(&quietcore_facts::CpuTimes) -> u64| of(&second).checked_sub(of(&first));
    let idle = grown(|t| t.idle)? as f64;
    let all = idle + grown(|t| t.busy)? as f64 + grown(|t| t.steal)? as f64;
    (all > 0.0).then(|| idle / all)
}

fn residencies(first: &[StateUse], second: &[StateUse], took: Nanos) -> Vec<Residency> {
    let state = |after: &StateUse| {
        let before = first.iter().find(|before| before.index == after.index)?;
        let us = after.time_us.checked_sub(before.time_us)?;
        Some(Residency {
            index: after.index,
            share: us as f64 / took.as_us(),
            usage: after.usage.checked_sub(before.usage)?,
        })
    };
    second.iter().filter_map(state).collect()
}

/// Frequency while not idle over the rated one, from two readings of (APERF, MPERF); `None` where
/// the counters stood still (emulators) or ran backwards (the CPU was offline between).
pub fn over_base(first: (u64, u64), second: (u64, u64)) -> Option<f64> {
    let aperf = second.0.checked_sub(first.0)? as f64;
    let mperf = second.1.checked_sub(first.1)? as f64;
    (aperf > 0.0 && mperf > 0.0).then(|| aperf / mperf)
}

/// A CPU's frequency in MHz: of its cycles while it worked where they can be counted, else what
/// the driver reports.
pub fn mhz(first: &CpuPower, second: &CpuPower, base_mhz: Option<f64>) -> Reading<f64> {
    let ratio = first.cycles.zip(second.cycles).and_then(|(a, b)| over_base(a, b));
    match ratio.zip(base_mhz) {
        Some((ratio, base)) => Reading::Measured(ratio * base),
        None => second.khz.clone().map(|khz| khz as f64 / 1000.0),
    }
}

/// What of a CPU's state calls for somebody: busy below `below` of its rated frequency, or slowed
/// down for heat since the first reading.
pub fn alerts(
    cpu: usize,
    (busy, mhz, base_mhz): (Option<f64>, Option<f64>, Option<f64>),
    (before, after): (Option<u64>, Option<u64>),
    below: f64,
) -> Vec<Alert> {
    let mut alerts = Vec::new();
    if let (Some(busy), Some(mhz), Some(base_mhz)) = (busy, mhz, base_mhz) {
        // A frequency of 0 is a driver that does not know.
        if busy >= BUSY && mhz > 0.0 && base_mhz > 0.0 && mhz / base_mhz < below {
            alerts.push(Alert::Slow { cpu, mhz, base_mhz });
        }
    }
    if let (Some(before), Some(after)) = (before, after) {
        if after > before {
            alerts.push(Alert::Throttled { cpu, times: after - before });
        }
    }
    alerts
}

/// What of all CPUs calls for somebody between two readings.
pub fn watch(facts: &Facts, first: &PowerReading, second: &PowerReading, below: f64) -> Vec<Alert> {
    let moment = Moment::new(facts, first, second);
    let cpus = second.cpus.iter().filter_map(|(cpu, after)| {
        let before = first.cpus.get(cpu)?;
        let activity = moment.activity(*cpu, before, after);
        let base = moment.base_mhz(*cpu).value().copied();
        let now = mhz(before, after, base).value().copied();
        let throttles = (before.throttles.value().copied(), after.throttles.value().copied());
        Some(alerts(*cpu, (activity.busy.value().copied(), now, base), throttles, below))
    });
    cpus.flatten().collect()
}

#[cfg(test)]
mod tests;
