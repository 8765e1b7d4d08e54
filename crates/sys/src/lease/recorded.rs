//! Places of a recorded host: what a change would do to it, without it.

use std::collections::BTreeMap;

use serde_json::json;

use super::slot::{Slot, describe_unit};
use super::value::Value;
use crate::host::{Host, Snapshot, Trouble, Unit};

impl Host {
    /// What a place held when the host was recorded, or what was written to it since.
    pub(crate) fn look_recorded(&self, slot: &Slot) -> Result<Value, Trouble> {
        // A kernel file is written in the recording itself: one may change another.
        let written = self.written().and_then(|written| written.get(slot));
        if let (Some(value), false) = (written, matches!(slot, Slot::Knob { .. })) {
            return Ok(value.clone());
        }
        let unasked = Err(Trouble::NotRecorded);
        match slot {
            Slot::Knob { path, form } => {
                self.read(path).map(|text| form.value(&text)).map_err(|e| e.trouble)
            }
            Slot::File { path } => match self.read(path).map_err(|e| e.trouble) {
                Ok(text) => Ok(Value::file(text, 0o644)),
                Err(Trouble::Missing) => Ok(Value::Absent),
                Err(trouble) => Err(trouble),
            },
            Slot::Folder { path } => match self.list(path).map_err(|e| e.trouble) {
                Ok(_) => Ok(Value::folder()),
                Err(Trouble::Missing) => Ok(Value::Absent),
                Err(trouble) => Err(trouble),
            },
            Slot::Unit { name } => self.snapshot().map_or(unasked, |snapshot| unit(snapshot, name)),
            Slot::Enabled { name } => match self.snapshot().map(|snapshot| unit(snapshot, name)) {
                Some(Ok(state)) => {
                    let enabled = state.as_text().is_some_and(|text| text.ends_with(" enabled"));
                    Ok(Value::text(if enabled { "enabled" } else { "disabled" }))
                }
                Some(Err(_)) => Ok(Value::text("disabled")),
                None => unasked,
            },
            Slot::Affinity { tid, started } => {
                let tasks = self.tasks().map_err(|e| e.trouble)?;
                let task = tasks.iter().find(|t| t.tid == *tid && t.started == *started);
                task.map(|t| Value::text(t.affinity.to_string())).ok_or(Trouble::Missing)
            }
            Slot::Device { interface, setting } => {
                let driver = self.ethtool(interface).map_err(|e| e.trouble)?;
                let word = setting.of(&driver);
                word.map(|word| Value::text(word.to_string())).ok_or(Trouble::Missing)
            }
            Slot::Member { .. } | Slot::NextBoot { .. } => unasked,
        }
    }

    /// Writes to the recording, as the kernel would take it.
    pub(crate) fn write_recorded(&mut self, slot: &Slot, value: &Value) -> Result<(), Trouble> {
        self.look_recorded(slot)?;
        let Some(snapshot) = self.snapshot_mut() else { return Err(Trouble::NotRecorded) };
        let kept = match (slot, value) {
            (Slot::Knob { path, form }, Value::Text(text)) => {
                let answer = snapshot.write(path, text);
                form.value(&answer.map_err(|e| Trouble::Other(e.to_string()))?.0)
            }
            (Slot::File { path }, Value::File(content)) => {
                let text = String::from_utf8_lossy(&content.bytes.0).into_owned();
                snapshot.set(&format!("read {path}"), json!(text));
                value.clone()
            }
            (Slot::File { path }, Value::Absent) => {
                snapshot.set(&format!("read {path}"), json!(null));
                Value::Absent
            }
            _ => value.clone(),
        };
        self.note_written(slot, kept);
        Ok(())
    }
}

/// Units are asked for together: the answer that knows this one.
fn unit(snapshot: &Snapshot, name: &str) -> Result<Value, Trouble> {
    let first = snapshot.moments.first().ok_or(Trouble::NotRecorded)?;
    let answers = first.iter().filter(|(key, _)| key.starts_with("units "));
    for (_, answer) in answers {
        let units: Result<BTreeMap<String, Unit>, _> = serde_json::from_value(answer.clone());
        if let Some(unit) = units.ok().and_then(|units| units.get(name).cloned()) {
            return describe_unit(&unit);
        }
    }
    Err(Trouble::NotRecorded)
}
