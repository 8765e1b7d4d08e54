//! What came back from a guest, in the form scenarios ask for.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::records::Record;

/// Everything a guest sent.
pub struct Evidence {
    records: Vec<Record>,
}

impl Evidence {
    pub fn new(records: Vec<Record>) -> Self {
        Self { records }
    }

    fn step(&self, name: &str) -> Option<&Record> {
        self.records.iter().find(|r| r.kind == "step" && r.name == name)
    }

    /// A step's exit code; -1 for a step that is not there, which no process can return.
    pub fn code(&self, step: &str) -> i32 {
        self.step(step).map_or(-1, |r| r.code)
    }

    /// A step's stdout as text.
    pub fn out(&self, step: &str) -> String {
        self.step(step).map(|r| String::from_utf8_lossy(&r.stdout).into_owned()).unwrap_or_default()
    }

    /// A step's stderr as text.
    pub fn err(&self, step: &str) -> String {
        self.step(step).map(|r| String::from_utf8_lossy(&r.stderr).into_owned()).unwrap_or_default()
    }

    /// The text after `key=` on the first such line of a step's stdout, without spaces around it.
    /// Steps that look at the guest print what they see in this form.
    pub fn value(&self, step: &str, key: &str) -> Option<String> {
        let out = self.out(step);
        let prefix = format!("{key}=");
        out.lines().find_map(|l| l.strip_prefix(&prefix)).map(|v| v.trim().to_string())
    }

    /// The same as a number.
    pub fn number(&self, step: &str, key: &str) -> Option<i64> {
        self.value(step, key)?.parse().ok()
    }

    /// The run that a step printed as JSON.
    pub fn json(&self, step: &str) -> Option<Value> {
        serde_json::from_str(&self.out(step)).ok()
    }

    /// A file that the guest shipped.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        let record = self.records.iter().find(|r| r.kind == "file" && r.name == name)?;
        Some(&record.stdout)
    }

    pub fn last_step(&self) -> &str {
        self.records.iter().rev().find(|r| r.kind == "step").map_or("none", |r| r.name.as_str())
    }

    /// One line on how a step ended, for messages.
    pub fn ending(&self, step: &str) -> String {
        let err = self.err(step);
        let last = err.lines().last().unwrap_or("nothing");
        match self.code(step) {
            -1 => "it was not run".to_string(),
            137 => format!("killed (time limit or signal 9), stderr ends with: {last}"),
            code => format!("exit code {code}, stderr ends with: {last}"),
        }
    }

    /// All steps with all they wrote.
    pub fn transcript(&self) -> String {
        let mut text = String::new();
        for r in &self.records {
            if r.kind == "file" {
                let _ = writeln!(text, "--- file {}: {} bytes", r.name, r.stdout.len());
                continue;
            }
            let _ = writeln!(text, "--- {} {}: exit {}, {} s", r.kind, r.name, r.code, r.seconds);
            text.push_str(&String::from_utf8_lossy(&r.stdout));
            if !r.stderr.is_empty() {
                let _ = write!(text, "--- its stderr\n{}", String::from_utf8_lossy(&r.stderr));
            }
        }
        text
    }
}

/// One finding of an audit.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub id: String,
    pub status: String,
    pub title: String,
}

/// The findings of a run.
pub fn findings(run: &Value) -> Vec<Finding> {
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_string();
    let mut all = Vec::new();
    for section in run["sections"].as_array().into_iter().flatten() {
        for finding in section["findings"].as_array().into_iter().flatten() {
            all.push(Finding {
                id: text(finding, "id"),
                status: text(finding, "status"),
                title: text(finding, "title"),
            });
        }
    }
    all
}

/// The rows of a run's table, each by column.
pub fn rows<'a>(run: &'a Value, table: &str) -> Vec<BTreeMap<&'a str, &'a Value>> {
    let sections = run["sections"].as_array().into_iter().flatten();
    let mut all = Vec::new();
    for section in sections.filter(|s| s["type"] == "table" && s["name"] == table) {
        let columns: Vec<&str> =
            section["columns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for row in section["rows"].as_array().into_iter().flatten() {
            let cells = row.as_array().into_iter().flatten();
            all.push(columns.iter().copied().zip(cells).collect());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(out: &str) -> Evidence {
        let record = Record {
            kind: "step".into(),
            name: "look".into(),
            code: 0,
            stdout: out.into(),
            stderr: Vec::new(),
            seconds: 0,
        };
        Evidence::new(vec![record])
    }

    #[test]
    fn values_are_found_by_key() {
        let e = evidence("isolated=2-3\nnohz= (null)\nsmi=16\n");
        assert_eq!(e.value("look", "isolated").as_deref(), Some("2-3"));
        assert_eq!(e.value("look", "nohz").as_deref(), Some("(null)"));
        assert_eq!(e.number("look", "smi"), Some(16));
        assert_eq!(e.number("look", "isolated"), None);
        assert_eq!(e.value("look", "smi_"), None);
        assert_eq!(e.code("other"), -1);
    }

    #[test]
    fn findings_come_from_every_section() {
        let run = serde_json::json!({"sections": [
            {"type": "table", "rows": []},
            {"type": "findings", "findings": [{"id": "a.b", "status": "pass", "title": "fine"}]},
            {"type": "findings", "findings": [{"id": "c", "status": "fail"}]},
        ]});
        let found = findings(&run);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].id.as_str(), found[0].title.as_str()), ("a.b", "fine"));
        assert_eq!(found[1].status, "fail");
        assert!(findings(&serde_json::json!({})).is_empty());
    }

    #[test]
    fn rows_are_found_by_table_and_column() {
        let run = serde_json::json!({"sections": [
            {"type": "table", "name": "other", "columns": ["cpu"], "rows": [[9]]},
            {"type": "table", "name": "t", "columns": ["cpu", "smi"], "rows": [[0, 3], [1, null]]},
        ]});
        let found = rows(&run, "t");
        assert_eq!(found.len(), 2);
        assert_eq!((found[0]["cpu"].as_i64(), found[0]["smi"].as_i64()), (Some(0), Some(3)));
        assert!(rows(&run, "u").is_empty());
    }
}
