//! Hosts that were changed: each names the findings that must change with it, and no other may.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};

use quietcore_measure::{Finding, Status};
use quietcore_sys::host::Snapshot;
use serde::Deserialize;
use serde_json::Value;

use crate::{judge, snapshot, statuses, testdata};

/// `testdata/mutations/<name>.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    #[serde(skip)]
    pub name: String,
    /// What is wrong with the host.
    #[allow(dead_code, reason = "for people who read the file")]
    about: String,
    /// The host it is made from.
    base: String,
    /// `--cpus` for both.
    cpus: Option<String>,
    /// `--pid` for both.
    pid: Option<u32>,
    /// Answers put in place of the recorded ones, by key (`read /proc/cmdline`); `null` removes a
    /// file. `units` stands for the question about all of them.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// Texts replaced within recorded answers: each must be found.
    #[serde(default)]
    replace: BTreeMap<String, Vec<[String; 2]>>,
    /// States of systemd units put in place of the recorded ones, by unit.
    #[serde(default)]
    units: BTreeMap<String, Value>,
    /// Texts replaced within the answers of the second reading of a probe.
    #[serde(default)]
    replace_later: BTreeMap<String, Vec<[String; 2]>>,
    /// Answers of the second reading of a probe, besides those that the base has.
    #[serde(default)]
    later: BTreeMap<String, Value>,
    /// Every finding whose status differs from the base, with its new status.
    expect: BTreeMap<String, Status>,
}

/// A base host, `--cpus` and `--pid`.
type Question = (String, Option<String>, Option<u32>);

pub fn all() -> Vec<Mutation> {
    let mut files: Vec<_> =
        fs::read_dir(testdata().join("mutations")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let mut mutation: Mutation = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            mutation.name = path.file_stem().unwrap().to_string_lossy().into_owned();
            mutation
        })
        .collect()
}

/// The one of this name.
pub fn named(name: &str) -> Mutation {
    all().into_iter().find(|mutation| mutation.name == name).unwrap()
}

impl Mutation {
    pub fn judged(&self) -> Vec<Finding> {
        judge(self.applied(), self.cpus.as_deref(), self.pid)
    }

    /// Many hosts are made from the same one: each way of asking about it is judged once.
    pub fn judged_base(&self) -> Vec<Finding> {
        static JUDGED: Mutex<BTreeMap<Question, Vec<Finding>>> = Mutex::new(BTreeMap::new());
        let mut judged = JUDGED.lock().unwrap_or_else(PoisonError::into_inner);
        let question = (self.base.clone(), self.cpus.clone(), self.pid);
        let judge = || judge(snapshot(&self.base), self.cpus.as_deref(), self.pid);
        judged.entry(question).or_insert_with(judge).clone()
    }

    /// The answers that it changes.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.set.keys().chain(self.replace.keys())
    }

    /// With one more answer put in.
    pub fn judged_with(&self, key: &str, answer: &Value) -> Vec<Finding> {
        let mut host = self.applied();
        host.set(key, answer.clone());
        judge(host, self.cpus.as_deref(), self.pid)
    }

    /// The base with the changes.
    pub fn applied(&self) -> Snapshot {
        let mut host = snapshot(&self.base);
        let units = host.moments[0].keys().find(|key| key.starts_with("units ")).cloned();
        for (key, answer) in &self.set {
            let key = units.as_ref().filter(|_| key == "units").unwrap_or(key);
            host.set(key, answer.clone());
        }
        for (key, edits) in &self.replace {
            let later = host.moments.get(1).and_then(|moment| moment.get(key)).cloned();
            let edited = self.edited(key, host.moments[0].get(key), edits);
            host.set(key, edited);
            // What a probe reads twice is changed in both readings.
            if let Some(later) = later {
                host.moments[1].insert(key.clone(), self.edited(key, Some(&later), edits));
            }
        }
        if !self.units.is_empty() {
            let key = host.moments[0].keys().find(|key| key.starts_with("units ")).unwrap().clone();
            let mut states = host.moments[0][&key].clone();
            for (unit, state) in &self.units {
                assert!(states.get(unit).is_some(), "{}: nobody asks for {unit}", self.name);
                states[unit] = state.clone();
            }
            host.set(&key, states);
        }
        for (key, edits) in &self.replace_later {
            let recorded = host.moments[1].get(key).or(host.moments[0].get(key)).cloned();
            let edited = self.edited(key, recorded.as_ref(), edits);
            host.moments[1].insert(key.clone(), edited);
        }
        if !self.later.is_empty() && host.moments.len() < 2 {
            host.moments.push(Default::default());
        }
        for (key, answer) in &self.later {
            host.moments[1].insert(key.clone(), answer.clone());
        }
        host
    }

    fn edited(&self, key: &str, recorded: Option<&Value>, edits: &[[String; 2]]) -> Value {
        let name = &self.name;
        let mut text = recorded.unwrap_or_else(|| panic!("{name}: no {key}")).to_string();
        for [from, to] in edits {
            let quote = |s: &str| {
                let json = Value::String(s.to_owned()).to_string();
                json[1..json.len() - 1].to_owned()
            };
            assert!(text.contains(&quote(from)), "{name}: `{from}` is not in {key}: {text}");
            text = text.replace(&quote(from), &quote(to));
        }
        serde_json::from_str(&text).unwrap()
    }
}

#[test]
fn every_changed_host_changes_exactly_the_findings_it_names() {
    let mut wrong = Vec::new();
    for mutation in all() {
        let before = statuses(&mutation.judged_base());
        let findings = mutation.judged();
        let after = statuses(&findings);
        let changed: BTreeMap<String, Status> =
            after.into_iter().filter(|(id, status)| before.get(id) != Some(status)).collect();
        if changed != mutation.expect {
            let titles: Vec<String> = findings
                .iter()
                .filter(|f| changed.contains_key(&f.id) || mutation.expect.contains_key(&f.id))
                .map(|f| format!("{} {}: {}", f.status, f.id, f.title))
                .collect();
            wrong.push(format!(
                "{}: expected {:?}, got {titles:#?}",
                mutation.name, mutation.expect
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_are_at_least_forty_bad_hosts() {
    let bad = |m: &Mutation| m.expect.values().any(|s| matches!(s, Status::Fail | Status::Warn));
    let count = all().iter().filter(|m| bad(m)).count();
    assert!(count >= 40, "only {count}");
}
