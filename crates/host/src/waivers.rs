//! Failures that somebody accepts, with a reason and a last day.
//!
//! ```toml
//! [[waiver]]
//! id = "smt.isolated-siblings"
//! reason = "siblings are kept idle by the scheduler of the pods"
//! expires = "2027-03-31"
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use quietcore_measure::{Finding, Status, Waiver};
use serde::Deserialize;

use crate::checks;

/// Failures that are accepted.
#[derive(Clone, Debug, Default)]
pub struct Waivers(Vec<Entry>);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    reason: String,
    expires: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    waiver: Vec<Entry>,
}

/// Why a file of waivers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WaiverError {
    /// It cannot be read.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's words.
        source: std::io::Error,
    },
    /// It makes no sense.
    #[error("{}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected.
        why: String,
    },
}

impl Waivers {
    /// Reads a TOML file of `[[waiver]]` entries.
    pub fn load(path: &Path) -> Result<Self, WaiverError> {
        let text = fs::read_to_string(path)
            .map_err(|source| WaiverError::Io { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|why| WaiverError::Format { path: path.to_owned(), why })
    }

    /// Reads the text of such a file; the error says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| {
            let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            format!("line {}: {}", before.lines().count().max(1), e.message().replace('\n', " "))
        })?;
        for entry in &file.waiver {
            if !checks::ALL.iter().any(|check| check.id == entry.id) {
                return Err(format!("waiver for `{}`: there is no such check", entry.id));
            }
            if entry.reason.trim().is_empty() {
                return Err(format!("waiver for `{}`: a waiver needs a reason", entry.id));
            }
            if day(&entry.expires).is_none() {
                return Err(format!(
                    "waiver for `{}`: expires = \"{}\" is not a day: write YYYY-MM-DD",
                    entry.id, entry.expires
                ));
            }
        }
        Ok(Self(file.waiver))
    }

    /// Marks the failures and warnings that are accepted on this day.
    pub(crate) fn apply(&self, findings: &mut [Finding], today: u64) {
        for finding in findings {
            let valid =
                |e: &&Entry| e.id == finding.id && day(&e.expires).is_some_and(|d| d >= today);
            let Some(entry) = self.0.iter().find(valid) else { continue };
            if matches!(finding.status, Status::Fail | Status::Warn) {
                finding.status = Status::Waived;
                finding.waiver =
                    Some(Waiver { reason: entry.reason.clone(), expires: entry.expires.clone() });
            }
        }
    }
}

/// Days since 1970-01-01 of a date as YYYY-MM-DD.
fn day(text: &str) -> Option<u64> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    let (y, m, d): (u64, u64, u64) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let february = if leap { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(m).ok()?.checked_sub(1)?)?;
    if y < 1970 || d == 0 || d > length {
        return None;
    }
    let leaps = |y: u64| y / 4 - y / 100 + y / 400;
    let before = (y - 1970) * 365 + leaps(y - 1) - leaps(1969);
    Some(before + lengths[..(m - 1) as usize].iter().sum::<u64>() + d - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        for (text, days) in
            [("1970-01-01", 0), ("1970-12-31", 364), ("2000-03-01", 11_017), ("2026-11-20", 20_777)]
        {
            assert_eq!(day(text), Some(days), "{text}");
        }
        for text in
            ["", "2026-13-01", "2026-02-29", "2026-1-1", "2026-01-01-01", "1969-12-31", "tomorrow"]
        {
            assert_eq!(day(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_is_refused_with_the_reason() {
        for (text, why) in [
            (
                "[[waiver]]\nid = \"no.such\"\nreason = \"x\"\nexpires = \"2027-01-01\"",
                "no such check",
            ),
            ("[[waivers]]", "unknown field"),
            ("x", "expected"),
        ] {
            let error = Waivers::parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let id = checks::ALL[0].id;
        let with = |reason: &str, day: &str| {
            Waivers::parse(&format!(
                "[[waiver]]\nid = \"{id}\"\nreason = \"{reason}\"\nexpires = \"{day}\""
            ))
        };
        assert!(with("known", "2027-01-01").is_ok());
        assert!(with(" ", "2027-01-01").unwrap_err().contains("needs a reason"));
        assert!(with("known", "soon").unwrap_err().contains("YYYY-MM-DD"));
    }
}
