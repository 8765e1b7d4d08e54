//! Threads and processes: where they may run, in which class, in which control group.
//!
//! A number alone is no name: the start time tells a thread from a later one of the same number.

use std::fs;
use std::path::Path;

use quietcore_measure::CpuSet;

use super::{Form, Trouble, knob};
use crate::host::read_file;
use crate::lease::value::Value;
use crate::sched;

/// Whether the thread still is the one that was meant.
fn check(tid: u32, started: u64) -> Result<(), Trouble> {
    match started_at(tid) {
        Ok(now) if now == started => Ok(()),
        Ok(_) | Err(Trouble::Missing) => Err(Trouble::Missing),
        Err(trouble) => Err(trouble),
    }
}

/// When a thread began, in clock ticks since boot (field 22 of `/proc/TID/stat`).
pub fn started_at(tid: u32) -> Result<u64, Trouble> {
    let text = read_file(Path::new("/"), &format!("/proc/{tid}/stat"))?;
    // The name may hold spaces and brackets: what counts is behind the last one.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace()
        .nth(19)
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| Trouble::Other(format!("/proc/{tid}/stat makes no sense")))
}

pub(super) fn affinity(tid: u32, started: u64) -> Result<Value, Trouble> {
    check(tid, started)?;
    sched::affinity(tid as i32).map(|cpus| Value::text(cpus.to_string())).map_err(trouble)
}

pub(super) fn set_affinity(tid: u32, started: u64, value: &Value) -> Result<(), Trouble> {
    check(tid, started)?;
    let text = value.as_text().unwrap_or_default();
    let cpus = CpuSet::parse_list(text).map_err(|e| Trouble::Other(e.to_string()))?;
    sched::place(tid as i32, &cpus).map_err(trouble)
}

fn trouble(error: sched::SchedError) -> Trouble {
    use sched::SchedError::{Affinity, Place};
    match &error {
        Affinity { error, .. } | Place { error, .. }
            if error.raw_os_error() == Some(libc::ESRCH) =>
        {
            Trouble::Missing
        }
        _ => Trouble::Other(error.to_string()),
    }
}

/// The process' group in the hierarchy mounted at `mount`.
pub(super) fn group(pid: u32, started: u64, mount: &str) -> Result<Value, Trouble> {
    check(pid, started)?;
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let controller = Path::new(mount).file_name().unwrap_or_default().to_string_lossy();
    member_of(&text, &controller).map(Value::text).ok_or(Trouble::Missing)
}

/// `5:cpuset:/set` for a hierarchy of version 1, `0::/path` for version 2.
fn member_of<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let mut all = lines.clone();
    let of_v1 = lines.find(|(list, _)| list.split(',').any(|name| name == controller));
    of_v1.or_else(|| all.find(|(list, _)| list.is_empty())).map(|(_, path)| path)
}

pub(super) fn join(pid: u32, started: u64, mount: &str, value: &Value) -> Result<(), Trouble> {
    check(pid, started)?;
    let group = value.as_text().unwrap_or_default().trim_start_matches('/');
    let file = Path::new(mount).join(group).join("cgroup.procs").display().to_string();
    knob::write(&file, Form::Word, &Value::text(pid.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_that_of_the_hierarchy_asked_for() {
        let text = "5:cpuset:/latency\n4:cpu,cpuacct:/user\n0::/user.slice/a:b\n";
        assert_eq!(member_of(text, "cpuset"), Some("/latency"));
        assert_eq!(member_of(text, "cpuacct"), Some("/user"));
        assert_eq!(member_of(text, "cgroup"), Some("/user.slice/a:b"));
        assert_eq!(member_of("", "cgroup"), None);
    }

    #[test]
    fn a_later_process_of_the_same_number_is_another_one() {
        let pid = std::process::id();
        let started = started_at(pid).unwrap();
        assert!(affinity(pid, started).is_ok());
        assert_eq!(affinity(pid, started + 1), Err(Trouble::Missing));
    }
}
