//! What could not be read proves nothing: a verdict may lose its proof, never gain one.

use std::collections::{BTreeMap, BTreeSet};

use quietcore_measure::Status;
use serde_json::{Value, json};

use crate::{judge, mutations, names, snapshot, statuses};

/// The key without the numbers in it: what differs in them only is read by the same code.
fn pattern(key: &str) -> String {
    let mut pattern = String::new();
    for c in key.chars() {
        match c.is_ascii_digit() {
            true if pattern.ends_with('#') => {}
            true => pattern.push('#'),
            false => pattern.push(c),
        }
    }
    pattern
}

/// Every verdict that changed against the rule when the first key of each pattern was answered so.
fn gained(answer: &Value, forbidden: impl Fn(Status, Status) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for name in names() {
        let host = snapshot(&name);
        let before: BTreeMap<String, Status> = statuses(&judge(host.clone(), None, None));
        let mut seen = BTreeSet::new();
        // A host that answers nothing of units is not run by systemd: that does prove something.
        let first = |key: &&String| !key.starts_with("units ") && seen.insert(pattern(key));
        for key in host.moments[0].keys().filter(first) {
            let mut changed = host.clone();
            changed.set(key, answer.clone());
            for finding in judge(changed, None, None) {
                let Some(was) = before.get(&finding.id) else { continue };
                if forbidden(*was, finding.status) {
                    let (id, now, title) = (&finding.id, finding.status, &finding.title);
                    found.push(format!("{name}: {key}: {id} was {was}, is {now}: {title}"));
                }
            }
        }
    }
    found
}

#[test]
fn a_denied_answer_proves_neither_good_nor_bad() {
    let found = gained(&json!({"error": "denied"}), |was, now| {
        (was != Status::Pass && now == Status::Pass) || (was == Status::Pass && now == Status::Fail)
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_file_that_is_missing_makes_nothing_pass() {
    let found = gained(&Value::Null, |was, now| was != Status::Pass && now == Status::Pass);
    assert!(found.is_empty(), "{found:#?}");
}

/// On the hosts where something is bad, what is denied is that which shows it.
#[test]
fn a_denied_answer_hides_nothing_bad() {
    let mut found = Vec::new();
    for mutation in mutations::all() {
        let before = statuses(&mutation.judged());
        for (what, findings) in mutation.judged_without_each(&json!({"error": "denied"})) {
            for finding in findings {
                let bad = matches!(before.get(&finding.id), Some(Status::Fail | Status::Warn));
                if bad && finding.status == Status::Pass {
                    found.push(format!("{what}: {} passes: {}", finding.id, finding.title));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
