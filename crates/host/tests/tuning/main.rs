//! Every knob on every recorded host: what is planned is what is written, it is as wanted
//! afterwards, and taking it back leaves the recording as it was.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its hosts must fail")]

mod knobs;
mod order;
mod whole;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use quietcore_facts::Facts;
use quietcore_host::knobs::{Cores, Setting, State};
use quietcore_host::plan::{Plan, Reach, plan};
use quietcore_host::planner::{Wish, propose};
use quietcore_host::profile::Profile;
use quietcore_measure::CpuSet;
use quietcore_sys::Host;
use quietcore_sys::host::Snapshot;
use quietcore_sys::lease::{Lease, Outcome, TakenBack};

fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/hosts")
}

fn names() -> Vec<String> {
    let folders = fs::read_dir(hosts()).unwrap();
    let mut names: Vec<String> =
        folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A recorded host; each is read once for all tests.
fn snapshot(name: &str) -> Snapshot {
    static LOADED: Mutex<BTreeMap<String, Snapshot>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let load = || Snapshot::load(&hosts().join(name).join("host.json")).unwrap();
    loaded.entry(name.to_owned()).or_insert_with(load).clone()
}

/// These CPUs for latency, the other online ones for the rest.
fn cores(facts: &Facts, isolated: &str) -> Cores {
    let isolated = CpuSet::parse_list(isolated).unwrap();
    Cores { housekeeping: facts.cpus().online.minus(&isolated), isolated }
}

/// What the planner proposes, and nothing isolated.
fn splits(facts: &Facts) -> Vec<Cores> {
    let split = propose(facts, &Wish::default()).unwrap();
    vec![
        Cores { isolated: split.isolated, housekeeping: split.housekeeping },
        Cores { isolated: CpuSet::new(), housekeeping: facts.cpus().online.clone() },
    ]
}

/// A profile of these knobs only.
fn profile(knobs: &[(&str, Setting)]) -> Profile {
    let mut profile = Profile::default();
    for (knob, setting) in knobs {
        profile.set(&format!("{knob}={setting}")).unwrap();
    }
    profile
}

/// A host that is changed and given back.
struct Bench {
    facts: Facts,
    cpus: Cores,
    lease: Lease,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(snapshot: Snapshot, cpus: impl Fn(&Facts) -> Cores) -> Self {
        let facts = Facts::of(Host::recorded(snapshot));
        let folder = tempfile::tempdir().unwrap();
        let lease = Lease::take(folder.path(), "t", facts.host()).unwrap();
        Self { cpus: cpus(&facts), facts, lease, _folder: folder }
    }

    fn plan(&self, profile: &Profile) -> Plan {
        plan(&self.facts, profile, &self.cpus, Reach::Whole)
    }

    /// Applies a profile and returns what was planned; the facts are read anew.
    fn apply(mut self, profile: &Profile) -> (Self, Plan) {
        let plan = self.plan(profile);
        let mut host = self.facts.into_host();
        self.lease.change(&mut host, &plan.changes()).unwrap();
        self.facts = Facts::of(host);
        (self, plan)
    }

    fn take_back(mut self) -> (Self, Vec<TakenBack>) {
        let mut host = self.facts.into_host();
        let back = self.lease.take_back(&mut host, |_| true).unwrap();
        self.facts = Facts::of(host);
        (self, back)
    }

    fn json(&self) -> String {
        self.facts.host().snapshot().unwrap().to_json().unwrap()
    }
}

/// What is neither as wanted nor known to be out of reach.
fn open(plan: &Plan) -> Vec<String> {
    let open = plan.items().filter(|(_, item)| matches!(item.state, State::Change(_)));
    open.map(|(knob, item)| format!("{}: {} to {}", knob.id, item.slot, item.after)).collect()
}

fn all_restored(back: &[TakenBack]) -> Vec<String> {
    let wrong = |t: &&TakenBack| !matches!(t.outcome, Outcome::Restored | Outcome::Already);
    back.iter().filter(wrong).map(|t| format!("{}: {:?}", t.slot, t.outcome)).collect()
}
