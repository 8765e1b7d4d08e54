//! What the kernel knows of its own clock: whether anyone keeps it right, and how far off it may be.

use serde::{Deserialize, Serialize};

use super::{Host, HostError, Trouble};

/// The kernel's view of its wall clock (`adjtimex(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timekeeping {
    /// Whether a daemon keeps the clock (`STA_UNSYNC` is clear). The kernel sets the flag itself
    /// once the largest possible error has grown to 16 s.
    pub synchronised: bool,
    /// The largest possible error in microseconds, as the daemon says and the kernel extrapolates.
    pub max_error_us: i64,
    /// The estimated error in microseconds.
    pub estimated_error_us: i64,
}

impl Host {
    /// The kernel's view of its wall clock; no privilege is needed to ask.
    pub fn timekeeping(&self) -> Result<Timekeeping, HostError> {
        let live = self.is_live();
        self.answer("timekeeping".to_owned(), |_| match live {
            true => ask(),
            false => Err(Trouble::NotRecorded),
        })
    }
}

fn ask() -> Result<Timekeeping, Trouble> {
    // SAFETY: an all-zero timex is a valid value of this plain C struct; modes 0 only reads.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `timex` outlives the call, which writes nothing else.
    match unsafe { libc::adjtimex(&mut timex) } {
        -1 => Err(std::io::Error::last_os_error().into()),
        state => Ok(Timekeeping {
            synchronised: state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
            max_error_us: timex.maxerror,
            estimated_error_us: timex.esterror,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_for_its_clock() {
        let clock = Host::live().timekeeping().unwrap();
        assert!(clock.max_error_us >= 0 && clock.estimated_error_us >= 0, "{clock:?}");
    }
}
