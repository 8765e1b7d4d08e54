//! The bad hosts of the mutation suite, for a program that cannot be linked to it.
//!
//! The suite itself is a test of quietcore-host; what is read here is its data. A field that this
//! does not know is an error, so the two cannot drift apart in silence.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Answers of a host, by question (`read /proc/cmdline`).
pub type Reading = BTreeMap<String, Value>;

/// A recorded host.
#[derive(Clone, Serialize, Deserialize)]
pub struct Snapshot {
    /// The first reading, and what had changed at each later one.
    pub moments: Vec<Reading>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Snapshot {
    /// The host of this name below `hosts`.
    pub fn load(hosts: &Path, name: &str) -> Result<Self> {
        parse(&hosts.join(name).join("host.json"))
    }

    /// The host as it was at the end of the recording: counters that grew during a probe have
    /// grown.
    pub fn last_reading(&self) -> Reading {
        self.moments.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// `testdata/mutations/<name>.json`, where it names a finding that must fail or warn.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadHost {
    /// Name of the file.
    #[serde(skip)]
    pub name: String,
    #[allow(dead_code, reason = "for people who read the file")]
    about: String,
    /// The host it is made from.
    pub base: String,
    /// CPUs meant for latency, for the tool that can be told.
    pub cpus: Option<String>,
    /// The process to examine.
    pub pid: Option<u32>,
    #[serde(default)]
    set: Reading,
    #[serde(default)]
    replace: BTreeMap<String, Vec<[String; 2]>>,
    /// States of systemd units.
    #[serde(default)]
    units: Map<String, Value>,
    /// Texts replaced in the second reading only.
    #[serde(default)]
    replace_later: BTreeMap<String, Vec<[String; 2]>>,
    #[serde(default)]
    later: Reading,
    expect: BTreeMap<String, String>,
}

impl BadHost {
    /// All of them, by name.
    pub fn all(folder: &Path) -> Result<Vec<Self>> {
        let mut hosts = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let mut host: Self = parse(&path)?;
            host.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            hosts.push(host);
        }
        hosts.retain(|host| host.wrongs().next().is_some());
        hosts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(hosts)
    }

    /// The findings that must be made: id, and `fail` or `warn`.
    pub fn wrongs(&self) -> impl Iterator<Item = (&str, &str)> {
        let wrong = |status: &str| matches!(status, "fail" | "warn");
        let named = self.expect.iter().map(|(id, status)| (id.as_str(), status.as_str()));
        named.filter(move |(_, status)| wrong(status))
    }

    /// The host, from the one it is made of.
    pub fn applied(&self, mut host: Snapshot) -> Result<Snapshot> {
        for (key, answer) in &self.set {
            set(&mut host, key, answer.clone());
        }
        for (key, edits) in &self.replace {
            let answers: Vec<_> = host.moments.iter().map(|m| m.get(key).cloned()).collect();
            if answers.first().is_none_or(Option::is_none) {
                bail!("no `{key}` to edit");
            }
            for (moment, answer) in host.moments.iter_mut().zip(answers) {
                if let Some(answer) = answer {
                    moment.insert(key.clone(), edited(key, &answer, edits)?);
                }
            }
        }
        for (unit, state) in &self.units {
            let first = host.moments.first_mut().into_iter().flatten();
            let mut asked = first.filter(|(key, _)| key.starts_with("units "));
            let (_, states) = asked.next().context("the host was asked for no units")?;
            states[unit] = state.clone();
        }
        for (key, edits) in &self.replace_later {
            let answer = host.last_reading().remove(key);
            let answer =
                edited(key, &answer.with_context(|| format!("no `{key}` to edit"))?, edits)?;
            host.moments.last_mut().map(|moment| moment.insert(key.clone(), answer));
        }
        if !self.later.is_empty() && host.moments.len() < 2 {
            host.moments.push(Reading::new());
        }
        for (key, answer) in &self.later {
            host.moments[1].insert(key.clone(), answer.clone());
        }
        Ok(host)
    }
}

/// Puts an answer in, in all readings.
fn set(host: &mut Snapshot, key: &str, answer: Value) {
    for moment in host.moments.iter_mut().skip(1) {
        moment.remove(key);
    }
    if let Some(first) = host.moments.first_mut() {
        first.insert(key.to_owned(), answer);
    }
}

/// An answer with texts in it replaced; each must be there.
fn edited(key: &str, answer: &Value, edits: &[[String; 2]]) -> Result<Value> {
    let mut text = answer.to_string();
    for [from, to] in edits {
        let (from, to) = (quoted(from), quoted(to));
        if !text.contains(&from) {
            bail!("`{from}` is not in `{key}`");
        }
        text = text.replace(&from, &to);
    }
    serde_json::from_str(&text).with_context(|| key.to_owned())
}

/// A text as it stands inside JSON.
fn quoted(text: &str) -> String {
    let json = Value::String(text.to_owned()).to_string();
    json[1..json.len() - 1].to_owned()
}

fn parse<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bad_host_is_the_base_with_its_edits_and_later_answers() {
        let base: Snapshot = serde_json::from_value(json!({
            "name": "t",
            "moments": [
                {"cmdline": "quiet isolcpus=2", "read /a": "1\n", "read /c": "x1\n",
                 "units a.service": {"a.service": {"active": "inactive"}}},
                {"read /a": "2\n", "read /c": "x2\n"},
            ],
        }))
        .unwrap();
        let bad: BadHost = serde_json::from_value(json!({
            "about": "", "base": "t",
            "set": {"read /a": "7\n"},
            "replace": {"cmdline": [["isolcpus=2", "isolcpus=99"]], "read /c": [["x", "y"]]},
            "units": {"a.service": {"active": "active"}},
            "replace_later": {"read /c": [["2\n", "3\n"]]},
            "later": {"read /b": "9\n"},
            "expect": {"x": "fail", "y": "unknown"},
        }))
        .unwrap();
        assert_eq!(bad.wrongs().collect::<Vec<_>>(), [("x", "fail")]);
        let host = bad.applied(base.clone()).unwrap().last_reading();
        assert_eq!(host["cmdline"], "quiet isolcpus=99");
        assert_eq!(host["read /a"], "7\n");
        assert_eq!(host["read /b"], "9\n");
        assert_eq!(host["read /c"], "y3\n");
        assert_eq!(host["units a.service"]["a.service"]["active"], "active");
        assert_eq!(base.last_reading()["read /a"], "2\n");
        let stale = BadHost {
            replace: [("cmdline".to_owned(), vec![["gone".to_owned(), String::new()]])].into(),
            ..bad
        };
        assert!(stale.applied(base).is_err(), "an edit that no longer applies is an error");
    }
}
