//! A recorded host: the answers to every question that was asked of it.
//!
//! One JSON file, made to be read, compared and edited by people: a text is a string, a directory
//! a list, "not there" is `null`, any other failure `{"error": …}`. A probe's second reading holds
//! only what changed.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::writes::Rule;
use super::{Moment, Trouble, clip};

/// Version of the file's shape.
const FORMAT: u32 = 1;

/// A recorded host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Version of the file's shape.
    pub quietcore_snapshot: u32,
    /// What the host is called.
    pub name: String,
    /// What it is, and how it was made; empty if nobody said.
    #[serde(default)]
    pub about: String,
    /// The first reading, and what had changed at each later one.
    pub moments: Vec<Moment>,
    /// How files answer to being written, where their content alone does not tell.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub writes: std::collections::BTreeMap<String, Rule>,
}

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be read or written.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's words.
        source: std::io::Error,
    },
    /// The directory does not hold a host's files.
    #[error("{}: not a host: expected a directory with proc/ or sys/ in it", path.display())]
    NoHost {
        /// The directory.
        path: PathBuf,
    },
    /// The file is not a snapshot.
    #[error("{}: not a snapshot made by `quietcore audit --record`: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected and where.
        why: String,
    },
}

impl Snapshot {
    /// An empty recording.
    pub fn new(name: &str) -> Self {
        Self {
            quietcore_snapshot: FORMAT,
            name: name.to_owned(),
            about: String::new(),
            moments: vec![Moment::new()],
            writes: Default::default(),
        }
    }

    /// Reads a snapshot file.
    pub fn load(path: &Path) -> Result<Self, SnapshotError> {
        let text = fs::read_to_string(path)
            .map_err(|source| SnapshotError::Io { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|why| SnapshotError::Format { path: path.to_owned(), why })
    }

    /// Reads a snapshot from its text; the error says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let snapshot: Self = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if snapshot.quietcore_snapshot != FORMAT {
            return Err(format!(
                "it has format {}, this version reads format {FORMAT}",
                snapshot.quietcore_snapshot
            ));
        }
        if snapshot.moments.is_empty() {
            return Err("it holds no reading".to_owned());
        }
        Ok(snapshot)
    }

    /// The text of a snapshot file; a later reading keeps only what changed.
    ///
    /// # Errors
    /// None in practice: everything kept is plain JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut compact = self.clone();
        compact.compact();
        Ok(serde_json::to_string_pretty(&compact)? + "\n")
    }

    /// The text of a recorded file in the first reading.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.moments.first()?.get(&format!("read {path}"))?.as_str()
    }

    /// Puts an answer in, in all readings: for hosts made or changed by hand.
    pub fn set(&mut self, key: &str, answer: Value) {
        for moment in self.moments.iter_mut().skip(1) {
            moment.remove(key);
        }
        if let Some(first) = self.moments.first_mut() {
            first.insert(key.to_owned(), answer);
        }
    }

    pub(super) fn look_up<T: DeserializeOwned>(
        &self,
        moment: usize,
        key: &str,
    ) -> Result<T, Trouble> {
        let last = moment.min(self.moments.len().saturating_sub(1));
        let found = self.moments[..=last].iter().rev().find_map(|m| m.get(key));
        match found {
            Some(answer) => decode(answer),
            None => Err(self.inferred(key)),
        }
    }

    /// A path below a directory that was listed without it is known not to be there.
    fn inferred(&self, key: &str) -> Trouble {
        let parent = key
            .split_once(" /")
            .and_then(|(_, path)| path.rsplit_once('/'))
            .map(|(parent, name)| (format!("list /{parent}"), name));
        let listed = parent.and_then(|(key, name)| Some((self.moments.first()?.get(&key)?, name)));
        match listed {
            Some((Value::Array(names), name)) if !names.iter().any(|n| n == name) => {
                Trouble::Missing
            }
            Some((Value::Null, _)) => Trouble::Missing,
            _ => Trouble::NotRecorded,
        }
    }

    /// The answer kept under `key` in this reading, asked for if there is none yet.
    pub(super) fn keep(&mut self, moment: usize, key: &str, ask: impl FnOnce() -> Value) -> Value {
        while self.moments.len() <= moment {
            self.moments.push(Moment::new());
        }
        if let Some(kept) = self.moments[moment].get(key) {
            return kept.clone();
        }
        let answer = ask();
        self.moments[moment].insert(key.to_owned(), answer.clone());
        answer
    }

    /// Drops from later readings what did not change.
    fn compact(&mut self) {
        if let Some((first, later)) = self.moments.split_first_mut() {
            for moment in later {
                moment.retain(|key, answer| first.get(key) != Some(answer));
            }
        }
    }
}

pub(super) fn encode(answer: Result<Value, Trouble>) -> Value {
    match answer {
        Ok(value) => value,
        Err(Trouble::Missing) => Value::Null,
        Err(Trouble::Denied) => json!({"error": "denied"}),
        Err(Trouble::NotRecorded) => json!({"error": "not recorded"}),
        Err(Trouble::Other(why)) => json!({"error": why}),
    }
}

pub(super) fn decode<T: DeserializeOwned>(answer: &Value) -> Result<T, Trouble> {
    if answer.is_null() {
        return Err(Trouble::Missing);
    }
    let error = answer.as_object().filter(|o| o.len() == 1).and_then(|o| o.get("error"));
    if let Some(error) = error {
        return Err(match error.as_str() {
            Some("denied") => Trouble::Denied,
            Some("not recorded") => Trouble::NotRecorded,
            other => Trouble::Other(other.unwrap_or("unreadable entry").to_owned()),
        });
    }
    T::deserialize(answer).map_err(|e| {
        Trouble::Other(format!("garbage in the snapshot (`{}`): {e}", clip(&answer.to_string())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;

    fn snapshot(entries: Value) -> Snapshot {
        Snapshot::parse(
            &json!({"quietcore_snapshot": 1, "name": "t", "moments": entries}).to_string(),
        )
        .unwrap()
    }

    #[test]
    fn a_recording_answers_as_the_host_did_failures_included() {
        let host = Host::recorded(snapshot(json!([
            {"read /a": "1\n", "read /gone": null, "read /secret": {"error": "denied"},
             "read /odd": {"error": "Input/output error"}, "list /d": ["x", "y"]},
            {"read /a": "2\n"}
        ])));
        assert_eq!(host.read("/a").unwrap(), "1\n");
        assert_eq!(host.read("/gone").unwrap_err().trouble, Trouble::Missing);
        assert_eq!(host.read("/secret").unwrap_err().trouble, Trouble::Denied);
        assert_eq!(host.read("/never").unwrap_err().trouble, Trouble::NotRecorded);
        assert_eq!(host.read("/odd").unwrap_err().to_string(), "/odd: Input/output error");
        assert_eq!(host.read("/d/z").unwrap_err().trouble, Trouble::Missing);
        assert!(host.has_second_moment());
        assert_eq!(host.at_second_moment(|| host.read("/a")).unwrap(), "2\n");
        assert_eq!(host.at_second_moment(|| host.list("/d")).unwrap(), ["x", "y"]);
        assert_eq!(host.read("/a").unwrap(), "1\n");
    }

    #[test]
    fn recording_a_live_host_and_asking_the_recording_agree() {
        let ask = |host: &Host| {
            let first = (host.read("/proc/cmdline"), host.list("/proc/self/task").is_ok());
            let second = host.at_second_moment(|| host.read("/proc/uptime"));
            (first, second, host.read("/no/such/file"), host.link("/proc/self/exe"))
        };
        let live = Host::live().recording("here");
        let first = ask(&live);
        let kept = live.into_snapshot().unwrap();
        let text = serde_json::to_string(&kept).unwrap();
        let again = Snapshot::parse(&text).unwrap();
        assert_eq!(again, kept);
        assert_eq!(ask(&Host::recorded(again)), first);
    }

    #[test]
    fn a_recording_is_named_by_its_maker_and_hides_addresses_in_names() {
        let [first, second] = ["enx525400aaaaaa", "enx525400bbbbbb"];
        let host = Host::recorded(snapshot(json!([{
            "list /sys/class/net": [first, second, "lo"],
            format!("read /sys/class/net/{first}/mtu"): "1500\n",
            format!("read /sys/class/net/{second}/mtu"): "9000\n",
            format!("ethtool {second}"): {"driver": "r8152"},
            "environment 1": {first: "fe80::1"},
        }])));
        let host = host.recording("lab");
        assert_eq!(host.recording_name().as_deref(), Some("lab"));
        let names = host.list("/sys/class/net").unwrap();
        assert_eq!(names, ["enx000000000001", "enx000000000002", "lo"]);
        assert_eq!(host.line(&format!("/sys/class/net/{}/mtu", names[0])).unwrap(), "1500");
        assert_eq!(host.line(&format!("/sys/class/net/{}/mtu", names[1])).unwrap(), "9000");
        assert_eq!(host.ethtool(&names[1]).unwrap().driver.as_deref(), Some("r8152"));
        assert_eq!(host.environment(1).unwrap()[&names[0]], "0000::0");
        let kept = serde_json::to_string(&host.into_snapshot().unwrap()).unwrap();
        assert!(!kept.contains("525400") && !kept.contains("fe80"), "{kept}");
    }

    #[test]
    fn time_since_boot_and_time_awake_are_kept_apart() {
        let host = Host::live().recording("t");
        assert!(host.monotonic().unwrap() <= host.uptime().unwrap());
        let kept = host.into_snapshot().unwrap();
        let keys: Vec<&String> = kept.moments[0].keys().collect();
        assert_eq!(keys, ["clock boottime", "clock monotonic"]);
        let host = Host::recorded(snapshot(json!([{"clock monotonic": 5, "clock boottime": 9}])));
        assert_eq!((host.monotonic().unwrap().0, host.uptime().unwrap().0), (5, 9));
    }

    #[test]
    fn what_is_not_a_snapshot_is_refused_by_name() {
        for text in [
            "",
            "{",
            "[]",
            "{\"quietcore_snapshot\": 1}",
            "{\"quietcore_snapshot\":9,\"name\":\"\",\"moments\":[{}]}",
            "{\"quietcore_snapshot\":1,\"name\":\"\",\"moments\":[]}",
        ] {
            assert!(Snapshot::parse(text).is_err(), "{text}");
        }
        let error = Host::from_path(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.starts_with("/dev/null: not a snapshot made by"), "{error}");
    }

    #[test]
    fn garbage_in_an_entry_is_an_error_not_a_panic() {
        let host = Host::recorded(snapshot(
            json!([{"read /a": [1, 2], "list /b": "x", "link /c": {"k": 1}}]),
        ));
        for error in [
            host.read("/a").unwrap_err(),
            host.list("/b").unwrap_err(),
            host.link("/c").unwrap_err(),
        ] {
            assert!(error.to_string().contains("garbage in the snapshot"), "{error}");
        }
    }
}
