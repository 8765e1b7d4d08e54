//! One line per assertion, and the count at the end.

use std::fmt;

use serde_json::Value;

use super::evidence::findings;

/// Counts what held and what did not, and prints each as it is decided.
#[derive(Default)]
pub struct Tally {
    scenario: String,
    passed: u32,
    failed: u32,
    broken: u32,
}

impl Tally {
    pub fn begin(&mut self, scenario: &str) {
        self.scenario = scenario.to_string();
    }

    /// Something that quietcore must do or say.
    pub fn check(&mut self, holds: bool, what: &str, found: impl FnOnce() -> String) {
        if holds {
            self.passed += 1;
            println!("ok      {:<9} {what}", self.scenario);
        } else {
            self.failed += 1;
            println!("FAILED  {:<9} {what}: {}", self.scenario, found());
        }
    }

    /// The statuses that a run's findings must have: (check, status).
    pub fn findings(&mut self, name: &str, run: &Value, expect: &[(&str, &str)]) {
        let found = findings(run);
        for (id, expected) in expect {
            let all: Vec<_> = found.iter().filter(|f| f.id == *id).collect();
            let odd = all.iter().find(|f| f.status != *expected);
            self.check(
                !all.is_empty() && odd.is_none(),
                &format!("{name}: {id} is {expected}"),
                || match odd {
                    Some(f) => format!("it is {}: {}", f.status, f.title),
                    None => "no finding has that id".to_string(),
                },
            );
        }
    }

    /// The checks whose names start with one of `groups` and which fail: these, and no others.
    pub fn failing(&mut self, name: &str, run: &Value, groups: &[&str], expected: &[&str]) {
        let all = findings(run);
        let of_groups = |id: &str| groups.iter().any(|group| id.starts_with(group));
        let mut failing: Vec<_> =
            all.iter().filter(|f| f.status == "fail" && of_groups(&f.id)).collect();
        failing.sort_by(|a, b| a.id.cmp(&b.id));
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        let ids: Vec<&str> = failing.iter().map(|f| f.id.as_str()).collect();
        let what = match groups {
            [""] if expected.is_empty() => format!("{name}: nothing fails"),
            [""] => format!("{name}: {} fail, each of them true", expected.len()),
            _ => format!(
                "{name}: {} of {} fail, each of them true",
                expected.len(),
                groups.join(", ")
            ),
        };
        self.check(!all.is_empty() && ids == expected, &what, || {
            let unexpected = failing.iter().filter(|f| !expected.contains(&f.id.as_str()));
            let mut odd: Vec<String> =
                unexpected.map(|f| format!("{}: {}", f.id, f.title)).collect();
            let missing = expected.iter().filter(|id| !ids.contains(id));
            odd.extend(missing.map(|id| format!("{id} does not fail")));
            match all.is_empty() {
                true => "there are no findings".to_string(),
                false => odd.join("; "),
            }
        });
    }

    /// Something that the guest must be for the scenario to prove anything. If it is not, the lab
    /// is broken and quietcore is not to blame.
    pub fn premise(&mut self, holds: bool, what: &str, found: impl FnOnce() -> String) {
        if holds {
            self.passed += 1;
            println!("ok      {:<9} premise: {what}", self.scenario);
        } else {
            self.broken_lab(&format!("premise: {what}: {}", found()));
        }
    }

    pub fn broken_lab(&mut self, why: &str) {
        self.broken += 1;
        println!("BROKEN  {:<9} {why}", self.scenario);
    }

    pub fn failed(&self) -> u32 {
        self.failed
    }

    pub fn broken(&self) -> u32 {
        self.broken
    }

    /// Everything that is not as it should be.
    pub fn troubles(&self) -> u32 {
        self.failed + self.broken
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn findings_must_be_there_and_all_have_the_status() {
        let run = json!({"sections": [{"findings": [
            {"id": "a", "status": "pass", "title": ""},
            {"id": "b", "status": "pass", "title": ""},
            {"id": "b", "status": "fail", "title": "bad"},
        ]}]});
        let mut t = Tally::default();
        t.findings("audit", &run, &[("a", "pass")]);
        assert_eq!((t.passed, t.failed), (1, 0));
        t.findings("audit", &run, &[("a", "fail"), ("b", "pass"), ("c", "pass")]);
        assert_eq!((t.passed, t.failed), (1, 3));
    }

    #[test]
    fn what_fails_must_be_named_and_what_is_named_must_fail() {
        let run = json!({"sections": [{"findings": [
            {"id": "a.x", "status": "pass", "title": ""},
            {"id": "a.y", "status": "fail", "title": "bad"},
            {"id": "b.z", "status": "fail", "title": "worse"},
        ]}]});
        let mut t = Tally::default();
        t.failing("audit", &run, &[""], &["b.z", "a.y"]);
        t.failing("audit", &run, &["a."], &["a.y"]);
        assert_eq!((t.passed, t.failed), (2, 0));
        t.failing("audit", &run, &[""], &["a.y"]);
        t.failing("audit", &run, &["a."], &["a.y", "a.x"]);
        t.failing("audit", &json!({}), &[""], &[]);
        assert_eq!((t.passed, t.failed), (2, 3));
    }

    #[test]
    fn a_broken_lab_is_not_counted_as_a_failure() {
        let mut t = Tally::default();
        t.begin("x");
        t.check(true, "a", String::new);
        t.premise(false, "b", || "was c".into());
        assert_eq!((t.failed(), t.broken(), t.troubles()), (0, 1, 1));
        t.check(false, "d", String::new);
        assert_eq!(t.to_string(), "1 passed, 1 failed");
    }
}
