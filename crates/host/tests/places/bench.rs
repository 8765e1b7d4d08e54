//! A plan of one knob, carried out and taken back.

use std::collections::BTreeMap;
use std::process::Command;

use quietcore_facts::Facts;
use quietcore_host::knobs::{Ask, Cores, Item, Proposal, Setting, State, named};
use quietcore_host::plan::Reach;
use quietcore_measure::CpuSet;
use quietcore_sys::Host;
use quietcore_sys::lease::{Lease, Made, Outcome};

pub fn cores(isolated: &str, housekeeping: &str) -> Cores {
    let set = |list| CpuSet::parse_list(list).unwrap();
    Cores { isolated: set(isolated), housekeeping: set(housekeeping) }
}

pub fn propose(facts: &Facts, knob: &str, value: &str, cpus: &Cores) -> Proposal {
    let knob = named(knob).unwrap();
    let value = Setting::parse(knob.takes, value).unwrap();
    let mut proposal = Proposal::default();
    let ask = Ask { value: &value, knobs: &BTreeMap::new(), cpus, reach: Reach::Whole };
    (knob.propose)(facts, &ask, &mut proposal);
    proposal
}

pub fn is_change(item: &&Item) -> bool {
    matches!(item.state, State::Change(_))
}

/// Carries out those items of a knob that `only` lets pass, has `meanwhile` look at the host, and
/// takes them back: everything must be as before.
pub fn there_and_back(
    knob: &str,
    value: &str,
    cpus: &Cores,
    only: impl Fn(&Item) -> bool,
    meanwhile: impl FnOnce(&[Made]),
) {
    let plan = || {
        let proposal = propose(&Facts::of(Host::live()), knob, value, cpus);
        proposal.items.into_iter().filter(&only).collect::<Vec<Item>>()
    };
    let before = plan();
    assert!(before.iter().any(|item| is_change(&item)), "{knob}: nothing to do: {before:?}");
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::live();
    let mut lease = Lease::take(folder.path(), "t", &host).unwrap();
    let changes: Vec<_> = before.iter().filter_map(Item::change).collect();
    let made = lease.change(&mut host, &changes).unwrap();
    let refused = |item: &Item| made.iter().any(|m| m.slot == item.slot && m.refused.is_some());
    let again = plan();
    for item in again.iter().filter(is_change) {
        assert!(refused(item), "{knob}: still to be done: {item:?}");
    }
    for change in &changes {
        assert!(again.iter().any(|item| item.slot == change.slot), "{} is forgotten", change.slot);
    }
    meanwhile(&made);
    let back = lease.take_back(&mut host, |_| true).unwrap();
    for place in &back {
        let fine = matches!(place.outcome, Outcome::Restored | Outcome::Already);
        assert!(fine, "{knob}: {place:?}");
    }
    lease.end().unwrap();
    assert_eq!(plan(), before, "{knob}: not as before");
}

const INSIDE: &str = "QUIETCORE_TEST_INSIDE";

/// Whether this is the run inside namespaces of its own that `setup` has prepared; outside, it is
/// started, and has to go well.
pub fn inside(test: &str, setup: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let script = format!("{setup} && exec \"$0\" --exact \"$1\" --nocapture");
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", &script]).arg(own).arg(test).env(INSIDE, "1");
    let done = command.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("1 passed"), "{done:?}");
    false
}
