//! Folders: control groups, and folders for drop-ins that a distribution does not ship.

use std::fs;
use std::io;
use std::path::Path;

use super::{Form, Trouble, knob};
use crate::lease::value::Value;

/// What a folder that is there holds, for a journal.
const THERE: &str = "folder";

pub(super) fn read(path: &str) -> Result<Value, Trouble> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => Ok(Value::text(THERE)),
        Ok(_) => Err(Trouble::Other("not a folder".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Value::Absent),
        Err(error) => Err(error.into()),
    }
}

/// Only an empty folder goes: what others put into it is theirs. (A control group without
/// processes and children counts as empty.)
pub(super) fn write(path: &str, value: &Value) -> Result<(), Trouble> {
    match value {
        Value::Absent => {
            end_partition(path)?;
            fs::remove_dir(path).map_err(|error| match error.raw_os_error() {
                Some(libc::ENOTEMPTY | libc::EBUSY) => {
                    Trouble::Other("not empty: something else is in it".to_owned())
                }
                _ => error.into(),
            })?;
        }
        _ => fs::create_dir(path)?,
    }
    if !super::is_kernel_path(path) {
        fs::File::open(Path::new(path).parent().unwrap_or(Path::new("/")))?.sync_all()?;
    }
    Ok(())
}

/// The kernel removes a control group in the background: threads that are given the CPUs of a
/// partition back need them now.
fn end_partition(folder: &str) -> Result<(), Trouble> {
    let file = format!("{folder}/cpuset.cpus.partition");
    match knob::write(&file, Form::Word, &Value::text("member")) {
        Err(Trouble::Missing) => Ok(()),
        other => other,
    }
}

impl Value {
    /// A folder that is there.
    pub fn folder() -> Self {
        Self::text(THERE)
    }
}
