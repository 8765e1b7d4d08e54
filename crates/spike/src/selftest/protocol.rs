//! What an injector writes on its standard output, line by line.

use std::fmt;
use std::str::FromStr;

/// A stretch of CLOCK_MONOTONIC, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

impl Span {
    /// How long both lasted at the same time.
    pub fn overlap(&self, other: &Self) -> u64 {
        self.end.min(other.end).saturating_sub(self.start.max(other.start))
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A cause was at work.
    Caused,
    /// The victim felt something.
    Felt,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// This thread on this CPU is the victim, and waits for a line to begin.
    Victim {
        /// The thread.
        tid: u32,
        /// Its CPU.
        cpu: u32,
    },
    /// Something happened.
    Span(Report, Span),
    /// The cause cannot be had on this host.
    NotHere(String),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Victim { tid, cpu } => write!(f, "victim {tid} {cpu}"),
            Self::Span(Report::Caused, span) => write!(f, "caused {} {}", span.start, span.end),
            Self::Span(Report::Felt, span) => write!(f, "felt {} {}", span.start, span.end),
            Self::NotHere(why) => write!(f, "not-here {why}"),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let broken = || format!("not a line of an injector: {line:?}");
        let (word, rest) = line.split_once(' ').ok_or_else(broken)?;
        let pair = || {
            let (a, b) = rest.split_once(' ')?;
            Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?))
        };
        let span = |what| {
            let (start, end) = pair().filter(|(a, b)| a <= b).ok_or_else(broken)?;
            Ok(Self::Span(what, Span { start, end }))
        };
        match word {
            "victim" => {
                let (tid, cpu) = pair().ok_or_else(broken)?;
                let small = |n: u64| u32::try_from(n).map_err(|_| broken());
                Ok(Self::Victim { tid: small(tid)?, cpu: small(cpu)? })
            }
            "caused" => span(Report::Caused),
            "felt" => span(Report::Felt),
            "not-here" => Ok(Self::NotHere(rest.to_owned())),
            _ => Err(broken()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let span = Span { start: 5, end: 9 };
        for line in [
            Line::Victim { tid: 12, cpu: 1 },
            Line::Span(Report::Caused, span),
            Line::Span(Report::Felt, span),
            Line::NotHere("no java here".into()),
        ] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        for broken in ["", "felt", "felt 9 5", "felt 1", "victim 1 x", "what 1 2"] {
            assert!(broken.parse::<Line>().is_err(), "{broken}");
        }
    }
}
