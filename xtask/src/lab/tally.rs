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
