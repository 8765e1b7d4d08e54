//! How the files of a recorded host answer to being written.
//!
//! A plain tree of files takes any value and reads it back; the kernel does not. It refuses,
//! rounds, or turns a word into a bracketed choice, and whoever changes a host must be tested
//! against that.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use quietcore_measure::CpuSet;

use super::snapshot::Snapshot;

/// How one file answers, where its content alone does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// EACCES on open.
    ReadOnly,
    /// EBUSY, as a managed interrupt's affinity.
    Busy,
    /// One of the words in another file, as a governor.
    OneOf(String),
    /// A number, clamped and rounded down to a step, as a frequency.
    Number {
        /// Smallest value kept.
        min: i64,
        /// Largest value kept.
        max: i64,
        /// Values kept are `min` plus a multiple of it.
        step: i64,
    },
    /// A CPU mask that must hold an online CPU, as an interrupt's affinity.
    Mask,
    /// A number not above the one in another file, as a minimum beside its maximum.
    NotAbove(String),
    /// A number not below the one in another file, as a maximum beside its minimum.
    NotBelow(String),
    /// Keeps 0 while another file holds 0, as the NMI watchdog beside the switch for both.
    Within(String),
    /// Excludes another file, which becomes 0; is not written 0 itself: as a limit in bytes
    /// beside one in per cent.
    InsteadOf(String),
}

/// What the file reads after a write that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer(pub String);

/// Why a recorded file refused a write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// ENOENT.
    #[error("{0}: no such file")]
    Missing(String),
    /// EACCES.
    #[error("{0}: read-only")]
    ReadOnly(String),
    /// EBUSY.
    #[error("{0}: device or resource busy")]
    Busy(String),
    /// EINVAL.
    #[error("{path}: invalid value `{value}`")]
    Invalid {
        /// The file.
        path: String,
        /// What was written.
        value: String,
    },
}

impl Snapshot {
    /// Writes a recorded file as the kernel would take it, and says what it reads afterwards.
    pub fn write(&mut self, path: &str, value: &str) -> Result<Answer, WriteError> {
        let invalid =
            || WriteError::Invalid { path: path.to_owned(), value: value.trim().to_owned() };
        let now = self.text(path).ok_or_else(|| WriteError::Missing(path.to_owned()))?;
        let wanted = value.trim();
        let after = match self.writes.get(path) {
            Some(Rule::ReadOnly) => return Err(WriteError::ReadOnly(path.to_owned())),
            Some(Rule::Busy) => return Err(WriteError::Busy(path.to_owned())),
            Some(Rule::OneOf(choices)) => {
                let choices = self.text(choices).unwrap_or_default();
                choices.split_whitespace().find(|c| *c == wanted).ok_or_else(invalid)?.to_owned()
            }
            Some(Rule::Number { min, max, step }) => {
                let number: i64 = wanted.parse().map_err(|_| invalid())?;
                if min > max {
                    return Err(invalid());
                }
                let clamped = number.clamp(*min, *max);
                let above = clamped.saturating_sub(*min) % (*step).max(1);
                clamped.saturating_sub(above).to_string()
            }
            Some(Rule::Mask) => {
                let set = CpuSet::parse_mask(wanted).map_err(|_| invalid())?;
                let online = self.text("/sys/devices/system/cpu/online").unwrap_or_default();
                let online = CpuSet::parse_list(online).unwrap_or_default();
                if !set.intersects(&online) {
                    return Err(invalid());
                }
                set.to_mask(online.highest().map_or(1, |top| top + 1))
            }
            Some(Rule::NotAbove(other)) if number(Some(wanted)) > number(self.text(other)) => {
                return Err(invalid());
            }
            Some(Rule::NotBelow(other)) if number(Some(wanted)) < number(self.text(other)) => {
                return Err(invalid());
            }
            Some(Rule::Within(other)) if number(self.text(other)) == Some(0) => "0".to_owned(),
            Some(Rule::InsteadOf(_)) if wanted == now.trim() => wanted.to_owned(),
            Some(Rule::InsteadOf(_)) if wanted == "0" => return Err(invalid()),
            Some(Rule::InsteadOf(other)) => {
                let other = format!("read {other}");
                self.set(&other, Value::String("0\n".to_owned()));
                wanted.to_owned()
            }
            None if is_choice(now) => choose(now, wanted).ok_or_else(invalid)?,
            _ => wanted.to_owned(),
        };
        self.set(&format!("read {path}"), Value::String(format!("{after}\n")));
        Ok(Answer(after))
    }
}

/// `always [madvise] never`
fn is_choice(text: &str) -> bool {
    text.split_whitespace().filter(|w| w.starts_with('[') && w.ends_with(']')).count() == 1
}

fn number(text: Option<&str>) -> Option<i64> {
    text?.trim().parse().ok()
}

fn choose(now: &str, wanted: &str) -> Option<String> {
    let plain = |word: &str| word.trim_matches(['[', ']']).to_owned();
    let words: Vec<String> = now.split_whitespace().map(plain).collect();
    words.iter().any(|w| w == wanted).then(|| {
        let mark = |w: &String| if w == wanted { format!("[{w}]") } else { w.clone() };
        words.iter().map(mark).collect::<Vec<_>>().join(" ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let mut s = Snapshot::new("t");
        for (path, text, rule) in [
            ("/thp", "always [madvise] never\n", None),
            ("/governor", "powersave\n", Some(Rule::OneOf("/governors".into()))),
            ("/governors", "performance powersave\n", Some(Rule::ReadOnly)),
            (
                "/freq",
                "800000\n",
                Some(Rule::Number { min: 800_000, max: 3_400_000, step: 100_000 }),
            ),
            ("/empty", "0\n", Some(Rule::Number { min: 2, max: 1, step: 1 })),
            ("/any", "0\n", Some(Rule::Number { min: i64::MIN, max: i64::MAX, step: i64::MIN })),
            ("/irq", "f\n", Some(Rule::Mask)),
            ("/managed", "8\n", Some(Rule::Busy)),
            ("/plain", "1\n", None),
            ("/min", "2\n", Some(Rule::NotAbove("/max".into()))),
            ("/max", "4\n", Some(Rule::NotBelow("/min".into()))),
            ("/nmi", "0\n", Some(Rule::Within("/zero".into()))),
            ("/zero", "0\n", None),
            ("/bytes", "0\n", Some(Rule::InsteadOf("/ratio".into()))),
            ("/ratio", "20\n", None),
            ("/sys/devices/system/cpu/online", "0-3\n", None),
        ] {
            s.set(&format!("read {path}"), Value::String(text.to_owned()));
            if let Some(rule) = rule {
                s.writes.insert(path.to_owned(), rule);
            }
        }
        s
    }

    #[test]
    fn files_answer_as_the_kernel_does() {
        let mut s = snapshot();
        let mut write = |path: &str, value: &str| s.write(path, value).map(|a| a.0);
        assert_eq!(write("/thp", "never\n").unwrap(), "always madvise [never]");
        assert!(matches!(write("/thp", "sometimes"), Err(WriteError::Invalid { .. })));
        assert_eq!(write("/governor", "performance").unwrap(), "performance");
        assert!(write("/governor", "turbo").is_err());
        assert_eq!(write("/governors", "x"), Err(WriteError::ReadOnly("/governors".into())));
        assert_eq!(write("/freq", "2050000").unwrap(), "2000000");
        assert_eq!(write("/freq", "9999999").unwrap(), "3400000");
        assert!(matches!(write("/empty", "1"), Err(WriteError::Invalid { .. })));
        assert_eq!(write("/any", "9223372036854775807").unwrap(), "9223372036854775807");
        assert_eq!(write("/irq", "0000000c").unwrap(), "c");
        assert!(write("/irq", "f0").is_err(), "no online CPU in the mask");
        assert_eq!(write("/managed", "1"), Err(WriteError::Busy("/managed".into())));
        assert_eq!(write("/plain", "0").unwrap(), "0");
        assert!(write("/min", "5").is_err() && write("/max", "1").is_err());
        assert_eq!(
            (write("/max", "9").unwrap(), write("/min", "9").unwrap()),
            ("9".into(), "9".into())
        );
        assert_eq!(write("/nmi", "1").unwrap(), "0");
        assert_eq!(write("/bytes", "0").unwrap(), "0");
        assert_eq!(write("/bytes", "4096").unwrap(), "4096");
        assert!(write("/bytes", "0").is_err());
        assert_eq!(write("/none", "0"), Err(WriteError::Missing("/none".into())));
        assert_eq!(s.text("/ratio"), Some("0\n"));
        assert_eq!(s.text("/thp"), Some("always madvise [never]\n"));
    }
}
