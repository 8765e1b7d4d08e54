//! A duration in whole nanoseconds, parsed and printed the way the command line speaks.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A duration in nanoseconds; serialised as a plain integer.
///
/// 64 bits hold 584 years, so arithmetic saturates instead of wrapping: a clock that runs
/// backwards shows as 0, never as an absurdly long gap.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Whole microseconds to nanoseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// Whole milliseconds to nanoseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Whole seconds to nanoseconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// As microseconds, for people.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// As seconds, for rates.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(n: Nanos) -> Self {
        Self::from_nanos(n.0)
    }
}

/// Three significant digits and the unit that keeps them readable: `87 ns`, `4.82 µs`, `1.20 ms`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => (ns / 1e3, "µs"),
            1_000_000..1_000_000_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let digits = match value {
            v if v >= 100.0 => 0,
            v if v >= 10.0 => 1,
            _ => 2,
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

/// What was wrong with a duration on the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a duration: write a number and a unit (ns, us, ms, s, m, h), as 500us, 10s or 2m"
)]
pub struct ParseDurationError(String);

impl FromStr for Nanos {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseDurationError(text.to_owned());
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, unit) = trimmed.split_at(split);
        let scale: f64 = match unit.trim() {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3_600e9,
            _ => return Err(wrong()),
        };
        let value: f64 = number.parse().map_err(|_| wrong())?;
        let nanos = value * scale;
        // Above 2^53 a float no longer counts single nanoseconds; 100 days is far beyond any run.
        if !nanos.is_finite() || nanos > 100.0 * 86_400e9 {
            return Err(wrong());
        }
        Ok(Self(nanos.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, ns) in [
            ("100ns", 100),
            ("500us", 500_000),
            ("1.5ms", 1_500_000),
            ("10s", 10_000_000_000),
            ("2m", 120_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(ns)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1e9s", "1..0s", "10 parsecs", "99999h"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_print_with_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (4_823, "4.82 µs"),
            (62_341, "62.3 µs"),
            (387_400, "387 µs"),
            (1_200_000, "1.20 ms"),
            (2_000_000_000, "2.00 s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn whole_nanoseconds_survive_the_command_line(ns in 0u64..8_000_000_000_000_000) {
            prop_assert_eq!(format!("{ns}ns").parse(), Ok(Nanos(ns)));
        }
    }
}
