//! The audit on recorded hosts: real ones, ones made by hand, and bad ones made from them.
//!
//! `testdata/hosts/<host>/host.json` are snapshots. `testdata/mutations/*.json` each change one of
//! them for the worse (or the better) and name every finding that must change with it; one that
//! changes without being named fails the test as surely as one that does not change.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its hosts must fail")]

mod coverage;
mod denied;
mod garbage;
mod made;
mod mutations;
mod placement;
mod planner;
mod power;
mod recorded;
mod scopes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use quietcore_facts::Facts;
use quietcore_host::{Audit, Scope, Waivers, audit};
use quietcore_measure::{CpuSet, Finding, Status};
use quietcore_sys::Host;
use quietcore_sys::host::Snapshot;

/// The folder of test data.
fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// The names of the recorded hosts.
fn names() -> Vec<String> {
    let folders = fs::read_dir(testdata().join("hosts")).unwrap();
    let mut names: Vec<String> =
        folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A recorded host; each is read once for all tests.
fn snapshot(name: &str) -> Snapshot {
    static LOADED: Mutex<BTreeMap<String, Snapshot>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let load = || Snapshot::load(&testdata().join("hosts").join(name).join("host.json")).unwrap();
    loaded.entry(name.to_owned()).or_insert_with(load).clone()
}

/// Judges a snapshot; a second reading in it is taken as the probe.
fn judge(snapshot: Snapshot, cpus: Option<&str>, pid: Option<u32>) -> Vec<Finding> {
    let mut facts = Facts::of(Host::recorded(snapshot)).examining(pid);
    if facts.host().has_second_moment() {
        facts.take_probe(|| {});
    }
    let cpus = cpus.map(|list| CpuSet::parse_list(list).unwrap());
    let scope = Scope::of(&facts, cpus, pid);
    audit(&facts, &Audit { scope, waivers: Waivers::default(), today: 0 }).findings
}

fn statuses(findings: &[Finding]) -> BTreeMap<String, Status> {
    findings.iter().map(|f| (f.id.clone(), f.status)).collect()
}

fn with_status(findings: &[Finding], status: Status) -> Vec<&str> {
    findings.iter().filter(|f| f.status == status).map(|f| f.id.as_str()).collect()
}

#[test]
fn the_well_tuned_server_has_nothing_to_complain_of() {
    let findings = judge(snapshot("two-socket"), None, None);
    let bad: Vec<String> = findings
        .iter()
        .filter(|f| !matches!(f.status, Status::Pass | Status::NotApplicable))
        .map(|f| format!("{} {}: {}", f.status, f.id, f.title))
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn the_well_tuned_processes_have_nothing_to_complain_of() {
    for pid in [4711, 4720, 4730] {
        let findings = judge(snapshot("two-socket"), None, Some(pid));
        let bad: Vec<String> = findings
            .iter()
            .filter(|f| !matches!(f.status, Status::Pass | Status::NotApplicable))
            .map(|f| format!("{} {}: {}", f.status, f.id, f.title))
            .collect();
        assert!(bad.is_empty(), "{pid}: {bad:#?}");
    }
}

#[test]
fn where_nothing_could_be_read_nothing_passes() {
    let unread = Snapshot::new("nothing");
    for cpus in [None, Some("1")] {
        let findings = judge(unread.clone(), cpus, Some(1));
        let passed = with_status(&findings, Status::Pass);
        assert!(passed.is_empty(), "with nothing recorded: {passed:?}");
    }
}

#[test]
fn an_ordinary_laptop_sees_at_most_five_failures() {
    let findings = judge(snapshot("laptop"), None, None);
    let failed = with_status(&findings, Status::Fail);
    assert!(failed.len() <= 5, "{failed:?}");
    let warned = with_status(&findings, Status::Warn);
    assert!(!warned.is_empty(), "a laptop out of the box is not tuned");
}
