//! The values that profiles give to knobs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value from a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// A whole number.
    Number(i64),
    /// A word.
    Word(String),
    /// Names, as of services.
    Names(Vec<String>),
}

/// The values that a knob takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// One of these words.
    Words(&'static [&'static str]),
    /// A number within these bounds.
    Number {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
        /// Unit, as `µs`.
        unit: &'static str,
    },
    /// One of these words, or a number within these bounds.
    WordsOr {
        /// Words.
        words: &'static [&'static str],
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
        /// Unit, as `MHz`.
        unit: &'static str,
    },
    /// Names of something, as `systemd units`.
    Names(&'static str),
    /// A text in a form that the knob checks itself.
    Text(&'static str),
}

impl Setting {
    /// The word; empty for anything else.
    pub fn word(&self) -> &str {
        match self {
            Self::Word(word) => word,
            _ => "",
        }
    }

    /// The number; 0 for anything else, which [`Takes`] has refused.
    pub fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            _ => 0,
        }
    }

    /// The names; none for anything else.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Names(names) => names,
            _ => &[],
        }
    }

    /// From a command line, `10`, `never`, `a.service,b.service`.
    pub fn parse(takes: Takes, text: &str) -> Result<Self, String> {
        let setting = match takes {
            Takes::Number { .. } => Self::Number(text.parse().map_err(|_| takes.expects())?),
            Takes::Names(_) => Self::Names(text.split(',').map(str::to_owned).collect()),
            Takes::WordsOr { .. } => {
                text.parse().map_or_else(|_| Self::Word(text.to_owned()), Self::Number)
            }
            Takes::Words(_) | Takes::Text(_) => Self::Word(text.to_owned()),
        };
        takes.check(&setting).map(|()| setting)
    }
}

impl Takes {
    /// Whether a value is one of these.
    pub fn check(self, setting: &Setting) -> Result<(), String> {
        let fits = match (self, setting) {
            (Self::Words(words) | Self::WordsOr { words, .. }, Setting::Word(word)) => {
                words.contains(&word.as_str())
            }
            (
                Self::Number { min, max, .. } | Self::WordsOr { min, max, .. },
                Setting::Number(n),
            ) => (min..=max).contains(n),
            (Self::Names(_), Setting::Names(_)) | (Self::Text(_), Setting::Word(_)) => true,
            _ => false,
        };
        fits.then_some(()).ok_or_else(|| self.expects())
    }

    /// `one of never, madvise, always`, for errors and the reference page.
    pub fn expects(self) -> String {
        match self {
            Self::Words([one]) => format!("\"{one}\""),
            Self::Words(words) => format!("one of {}", words.join(", ")),
            Self::Number { min, max, unit } => {
                format!("a number from {min} to {max} {unit}").trim_end().to_owned()
            }
            Self::WordsOr { words, min, max, unit } => {
                let number = Self::Number { min, max, unit }.expects();
                format!("one of {}, or {number}", words.join(", "))
            }
            Self::Names(what) => format!("a list of {what}"),
            Self::Text(what) => what.to_owned(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => f.write_str(word),
            Self::Names(names) => f.write_str(&names.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_does_not_fit_says_what_would() {
        let words = Takes::Words(&["never", "madvise"]);
        assert_eq!(Setting::parse(words, "never"), Ok(Setting::Word("never".into())));
        assert_eq!(Setting::parse(words, "x").unwrap_err(), "one of never, madvise");
        let number = Takes::Number { min: 1, max: 10, unit: "s" };
        assert_eq!(Setting::parse(number, "11").unwrap_err(), "a number from 1 to 10 s");
        assert!(number.check(&Setting::Word("1".into())).is_err());
        let either = Takes::WordsOr { words: &["max"], min: 100, max: 9000, unit: "MHz" };
        assert_eq!(Setting::parse(either, "max"), Ok(Setting::Word("max".into())));
        assert_eq!(Setting::parse(either, "2400"), Ok(Setting::Number(2400)));
        let error = Setting::parse(either, "2.4").unwrap_err();
        assert_eq!(error, "one of max, or a number from 100 to 9000 MHz");
        let names = Setting::parse(Takes::Names("units"), "a,b").unwrap();
        assert_eq!(names.names(), ["a", "b"]);
    }
}
