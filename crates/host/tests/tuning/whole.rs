//! Whole profiles on every recorded host.

use std::collections::BTreeSet;

use quietcore_host::profile::SHIPPED;
use quietcore_sys::lease::Slot;

use super::*;

#[test]
fn what_is_written_is_what_was_planned_and_taking_it_back_leaves_no_trace() {
    let mut changed = 0;
    for name in names() {
        let host = snapshot(&name);
        for cpus in splits(&Facts::of(Host::recorded(host.clone()))) {
            for (profile, _) in SHIPPED {
                let at = format!("{name}, {profile}, CPUs {}", cpus.isolated);
                let profile = Profile::load(profile).unwrap();
                let bench = Bench::new(host.clone(), |_| cpus.clone());
                changed += there_and_back(bench, &profile, &at);
            }
        }
    }
    assert!(changed > 100, "only {changed} places");
}

/// How many places were changed.
fn there_and_back(bench: Bench, profile: &Profile, at: &str) -> usize {
    let before = bench.json();
    let (mut bench, plan) = bench.apply(profile);
    let planned: BTreeSet<&Slot> = plan
        .items()
        .filter(|(_, item)| matches!(item.state, State::Change(_)))
        .map(|(_, item)| &item.slot)
        .collect();
    let written: BTreeSet<&Slot> = bench.facts.host().written().unwrap().keys().collect();
    assert_eq!(written, planned, "{at}");
    assert_eq!(plan.changes().len(), planned.len(), "{at}: a place is planned once only");
    assert_eq!(open(&bench.plan(profile)), Vec::<String>::new(), "{at}: planned again");

    let mut host = bench.facts.into_host();
    assert!(bench.lease.change(&mut host, &plan.changes()).unwrap().is_empty(), "{at}: again");
    bench.facts = Facts::of(host);
    let order: Vec<Slot> = bench.lease.entries().map(|entry| entry.slot.clone()).collect();
    let (bench, back) = bench.take_back();
    assert_eq!(all_restored(&back), Vec::<String>::new(), "{at}");
    assert!(back.iter().rev().map(|t| &t.slot).eq(&order), "{at}: in reverse");
    assert_eq!(bench.json(), before, "{at}");
    order.len()
}
