//! The kernel's clocks, and sleeping until a point in time.
//!
//! Sleeps are to an absolute time only: a relative sleep adds the time spent between reading the
//! clock and going to sleep to every period, and hides it from whoever measures lateness.

use std::io;

/// A clock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelClock {
    /// Time since boot without sleep, steered by NTP: the clock of kernel events (BPF, ftrace,
    /// perf).
    Monotonic,
    /// Time since boot, sleep included: the clock of a task's start in `/proc/P/stat`.
    Boottime,
    /// Time since boot without sleep, never steered.
    MonotonicRaw,
    /// Time since 1970-01-01T00:00:00Z; it jumps when somebody sets it.
    Realtime,
}

impl KernelClock {
    fn id(self) -> libc::clockid_t {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::Realtime => libc::CLOCK_REALTIME,
        }
    }

    /// The clock's name in the manual.
    pub fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::Boottime => "CLOCK_BOOTTIME",
            Self::MonotonicRaw => "CLOCK_MONOTONIC_RAW",
            Self::Realtime => "CLOCK_REALTIME",
        }
    }

    /// The time in nanoseconds. On x86-64 and arm64 this is no system call where the kernel's
    /// clock source can be read from user space.
    #[inline]
    pub fn now(self) -> u64 {
        let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `ts` is a valid timespec to write to. The call fails only for a bad pointer or
        // an unknown clock; all of these exist on every kernel since 2.6.39.
        unsafe { libc::clock_gettime(self.id(), &mut ts) };
        nanoseconds(ts)
    }
}

/// Why a timed sleep or a change of the timer slack did not happen.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// `clock_nanosleep` failed for another reason than a signal.
    #[error("clock_nanosleep until {until_ns} ns on CLOCK_MONOTONIC failed: {error}")]
    Sleep {
        /// When the sleep should have ended.
        until_ns: u64,
        /// What the kernel said.
        error: io::Error,
    },
    /// `prctl(PR_SET_TIMERSLACK)` failed.
    #[error("setting this thread's timer slack to {slack_ns} ns failed: {error}")]
    Slack {
        /// The slack asked for.
        slack_ns: u64,
        /// What the kernel said.
        error: io::Error,
    },
}

/// Whether a sleep ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slept {
    /// The time came.
    Until,
    /// A signal came first.
    Interrupted,
}

/// Sleeps until CLOCK_MONOTONIC reads `until_ns`. A time that has passed returns at once.
///
/// # Errors
/// [`ClockError::Sleep`]; a signal is no error but [`Slept::Interrupted`], for the caller to
/// look at its stop flag.
pub fn sleep_until(until_ns: u64) -> Result<Slept, ClockError> {
    let ts = libc::timespec {
        tv_sec: (until_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (until_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `ts` is a valid timespec; with TIMER_ABSTIME no remaining time is written, so the
    // last pointer may be null.
    let status = unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &ts, std::ptr::null_mut())
    };
    match status {
        0 => Ok(Slept::Until),
        libc::EINTR => Ok(Slept::Interrupted),
        code => Err(ClockError::Sleep { until_ns, error: io::Error::from_raw_os_error(code) }),
    }
}

/// How late the kernel may fire a timer of the calling thread in order to batch wake-ups, in
/// nanoseconds. The default is 50 µs; threads in a real-time class have none.
pub fn timer_slack() -> u64 {
    // SAFETY: PR_GET_TIMERSLACK takes no pointers and cannot fail.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(slack).unwrap_or_default()
}

/// Sets the calling thread's timer slack; 1 ns is the least, 0 would restore the default.
///
/// # Errors
/// [`ClockError::Slack`].
pub fn set_timer_slack(slack_ns: u64) -> Result<(), ClockError> {
    let slack = libc::c_ulong::try_from(slack_ns).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: PR_SET_TIMERSLACK takes an integer and no pointers.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(ClockError::Slack { slack_ns, error: io::Error::last_os_error() }),
    }
}

/// A timespec of a clock that started at or after 1970, in nanoseconds.
#[inline]
fn nanoseconds(ts: libc::timespec) -> u64 {
    (ts.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(ts.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_clock_runs_backwards() {
        for clock in [
            KernelClock::Monotonic,
            KernelClock::Boottime,
            KernelClock::MonotonicRaw,
            KernelClock::Realtime,
        ] {
            let first = clock.now();
            let second = clock.now();
            assert!(second >= first, "{}: {first} then {second}", clock.name());
        }
    }

    #[test]
    fn time_since_boot_counts_sleep_too() {
        let awake = KernelClock::Monotonic.now();
        assert!(KernelClock::Boottime.now() >= awake);
    }

    #[test]
    fn a_sleep_never_ends_before_its_time() {
        let until = KernelClock::Monotonic.now() + 2_000_000;
        assert_eq!(sleep_until(until).unwrap(), Slept::Until);
        assert!(KernelClock::Monotonic.now() >= until);
    }

    #[test]
    fn a_time_that_has_passed_is_no_error() {
        assert_eq!(sleep_until(1).unwrap(), Slept::Until);
    }

    #[test]
    fn timer_slack_reads_back_as_set() {
        let before = timer_slack();
        set_timer_slack(1).unwrap();
        assert_eq!(timer_slack(), 1);
        set_timer_slack(before).unwrap();
        assert_eq!(timer_slack(), before);
    }
}
