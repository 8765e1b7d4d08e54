//! What could not be read proves nothing: a verdict may lose its proof, never gain one.

use std::collections::{BTreeMap, BTreeSet};

use quietcore_measure::Status;
use serde_json::{Value, json};

use crate::{judge, mutations, snapshot, statuses};

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
    for name in ["laptop", "two-socket"] {
        let host = snapshot(name);
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

/// What is judged by another source when its first is denied, or by those CPUs and packages that
/// still answer: key, and the beginning of the check's name.
const OTHER_SOURCE: &[(&str, &str)] = &[
    ("cmdline", "cstate.driver"),
    ("kernel log", "isolation.housekeeping"),
    ("read /proc/irq/#/effective_affinity_list", "irq.effective-affinity"),
    ("jvm #", "jvm."),
    ("read /sys/devices/system/cpu/cpu#/power/pm_qos_resume_latency_us", "cstate.idle-poll-smt"),
    ("msr # #x#", "smi.rising"),
];

/// On the hosts where something is bad, what is denied is that which shows it.
#[test]
fn a_denied_answer_hides_nothing_bad() {
    // The same question is denied on a few hosts: more of them only take time.
    const HOSTS: usize = 2;
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for mutation in mutations::all() {
        let mut keys: Vec<&String> = mutation.keys().collect();
        keys.retain(|key| {
            let times = asked.entry(pattern(key)).or_default();
            *times += 1;
            *times <= HOSTS
        });
        if keys.is_empty() {
            continue;
        }
        let before = statuses(&mutation.judged());
        for key in keys {
            let known = |id: &str| {
                OTHER_SOURCE.iter().any(|(k, i)| *k == pattern(key) && id.starts_with(i))
            };
            for finding in mutation.judged_with(key, &json!({"error": "denied"})) {
                let bad = matches!(before.get(&finding.id), Some(Status::Fail | Status::Warn));
                if bad && finding.status == Status::Pass && !known(&finding.id) {
                    found.push(format!(
                        "{}: {key}: {}: {}",
                        mutation.name, finding.id, finding.title
                    ));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
