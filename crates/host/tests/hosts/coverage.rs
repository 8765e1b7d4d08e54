//! A check counts only with a host where it fails and one where it passes.

use std::collections::BTreeMap;

use quietcore_host::checks;
use quietcore_measure::Status;

use crate::{judge, mutations, names, snapshot};

/// Tell a state that is no error: instead of failing they do not apply somewhere.
const STATES: [&str; 1] = ["kernel.lockdown"];

#[test]
fn every_check_fails_on_one_host_and_passes_on_another() {
    let mut seen: BTreeMap<String, Vec<Status>> = BTreeMap::new();
    let mut see = |findings: Vec<quietcore_measure::Finding>| {
        for finding in findings {
            seen.entry(finding.id).or_default().push(finding.status);
        }
    };
    for name in names() {
        see(judge(snapshot(&name), None, None));
    }
    for mutation in mutations::all() {
        see(mutation.judged());
        see(mutation.judged_base());
    }
    let lacking: Vec<String> = checks::ALL
        .iter()
        .filter_map(|check| {
            let statuses = seen.get(check.id).cloned().unwrap_or_default();
            let fails = match STATES.contains(&check.id) {
                true => statuses.contains(&Status::NotApplicable),
                false => statuses.iter().any(|s| matches!(s, Status::Fail | Status::Warn)),
            };
            let passes = statuses.contains(&Status::Pass);
            (!fails || !passes).then(|| format!("{}: fails {fails}, passes {passes}", check.id))
        })
        .collect();
    assert!(lacking.is_empty(), "{lacking:#?}");
}
