//! On every recorded host.

use std::path::Path;

use quietcore_facts::Facts;
use quietcore_host::knobs::Item;
use quietcore_measure::CpuSet;
use quietcore_sys::Host;
use quietcore_sys::host::Snapshot;
use quietcore_sys::lease::{Lease, Outcome};

use serde_json::json;

use crate::bench::{cores, is_change, propose};

const KNOBS: &[(&str, &str)] = &[
    ("stop-services", "irqbalance.service,tuned.service"),
    ("workqueue-cpumask", "housekeeping"),
    ("nic-runtime-pm", "on"),
    ("nic-rings", "1024"),
    ("nic-coalescing", "0"),
    ("gro", "off"),
    ("eee", "off"),
    ("rps", "housekeeping"),
    ("xps", "apart"),
    ("irq-affinity", "housekeeping"),
    ("kernel-threads", "housekeeping"),
    ("process-affinity", "housekeeping"),
];

fn hosts() -> Vec<(String, Host)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/hosts");
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let load = |path: &Path| Snapshot::load(&path.join("host.json")).unwrap();
    let mut all: Vec<_> =
        names.iter().map(|path| (path.display().to_string(), Host::recorded(load(path)))).collect();
    all.push(("spoilt".to_owned(), Host::recorded(spoilt(load(&folder.join("two-socket"))))));
    all
}

/// What no recorded host has: daemons that run, packets that are handed on, a card that may sleep.
fn spoilt(mut host: Snapshot) -> Snapshot {
    let answers = host.moments[0].clone();
    for (key, mut answer) in answers {
        if key.starts_with("units ") {
            for unit in answer.as_object_mut().unwrap().values_mut() {
                *unit = json!({"load": "loaded", "active": "active", "file": "enabled"});
            }
            host.set(&key, answer);
        } else if key.ends_with("/rps_cpus") {
            host.set(&key, json!("ffffffff,ffffffff,ffffffff,ffffffff\n"));
        } else if key.ends_with("/power/control") && key.contains("/net/") {
            host.set(&key, json!("auto\n"));
        }
    }
    host
}

/// The upper half for latency.
fn halves(facts: &Facts) -> quietcore_host::knobs::Cores {
    let online = &facts.cpus().online;
    let isolated: CpuSet = online.iter().skip(online.len().div_ceil(2)).collect();
    cores(&isolated.to_string(), &online.minus(&isolated).to_string())
}

#[test]
fn what_is_changed_is_as_wanted_then_and_as_before_when_taken_back() {
    let mut changed = std::collections::BTreeSet::new();
    for (name, mut host) in hosts() {
        for (knob, value) in KNOBS {
            let plan = |host: Host| {
                let facts = Facts::of(host);
                let items = propose(&facts, knob, value, &halves(&facts)).items;
                (items, facts.into_host())
            };
            let (before, back) = plan(host);
            host = back;
            let changes: Vec<_> = before.iter().filter_map(Item::change).collect();
            let folder = tempfile::tempdir().unwrap();
            let mut lease = Lease::take(folder.path(), "t", &host).unwrap();
            let made = lease.change(&mut host, &changes).unwrap();
            let (again, back) = plan(host);
            host = back;
            let refused: Vec<_> = made.iter().filter(|m| m.refused.is_some()).collect();
            for item in again.iter().filter(is_change) {
                assert!(refused.iter().any(|m| m.slot == item.slot), "{name} {knob}: {item:?}");
            }
            for change in &changes {
                assert!(again.iter().any(|item| item.slot == change.slot), "{name}: {change:?}");
                changed.insert(*knob);
            }
            for place in lease.take_back(&mut host, |_| true).unwrap() {
                assert_eq!(place.outcome, Outcome::Restored, "{name} {knob}: {place:?}");
            }
            let (after, back) = plan(host);
            host = back;
            assert_eq!(after, before, "{name} {knob}");
        }
    }
    let all: std::collections::BTreeSet<&str> = KNOBS.iter().map(|(knob, _)| *knob).collect();
    let idle: Vec<&&str> = all.difference(&changed).collect();
    assert!(idle.is_empty(), "no recorded host has anything to change for {idle:?}");
}
