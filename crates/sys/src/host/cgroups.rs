//! Control groups, in one question: a host may have hundreds, and only those that limit something
//! are worth keeping.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Host, HostError, Trouble, live};

/// Where systemd and container runtimes mount control groups.
const ROOT: &str = "/sys/fs/cgroup";
/// Groups looked at per hierarchy. A group without children costs three small files.
const MOST: usize = 1000;

/// The control groups of a host that limit something, or did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlGroups {
    /// Where version 2 is mounted, if it is.
    pub unified: Option<String>,
    /// Groups with a limit, nearest to the root first.
    pub groups: Vec<ControlGroup>,
    /// How many groups were looked at.
    pub seen: usize,
    /// Whether there were more groups than were looked at.
    pub truncated: bool,
}

/// A control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlGroup {
    /// Its directory.
    pub folder: String,
    /// The texts of those of its files that set a limit, or tell what one did.
    pub files: BTreeMap<String, String>,
}

impl Host {
    /// The control groups that limit something.
    ///
    /// # Errors
    /// Missing where none are mounted below `/sys/fs/cgroup`.
    pub fn control_groups(&self) -> Result<ControlGroups, HostError> {
        let live = self.is_live();
        self.answer("control groups".to_owned(), |root| read_groups(root, live))
    }
}

fn read_groups(root: &Path, live: bool) -> Result<ControlGroups, Trouble> {
    let top = live::list(root, ROOT)?;
    let has = |name: &str| top.iter().any(|n| n == name);
    let mut found = ControlGroups::default();
    if has("cgroup.controllers") {
        found.unified = Some(ROOT.to_owned());
    } else if has("unified") {
        found.unified = Some(format!("{ROOT}/unified"));
    }
    if let Some(folder) = found.unified.clone() {
        walk(root, live, &folder, unified, &mut found);
    }
    if !has("cgroup.controllers") {
        for (controller, limits) in
            [("cpu", cpu as Limits), ("cpuset", cpuset as Limits), ("memory", memory as Limits)]
        {
            if has(controller) {
                walk(root, live, &format!("{ROOT}/{controller}"), limits, &mut found);
            }
        }
    }
    match found.seen {
        0 => Err(Trouble::Missing),
        _ => Ok(found),
    }
}

type Limits = fn(&dyn Fn(&str) -> Option<String>) -> BTreeMap<String, String>;

/// Breadth first, so that a bound leaves out the deepest groups.
fn walk(root: &Path, live: bool, top: &str, limits: Limits, found: &mut ControlGroups) {
    let mut queue = VecDeque::from([top.to_owned()]);
    let mut left = MOST;
    while let Some(folder) = queue.pop_front() {
        if left == 0 {
            found.truncated = true;
            return;
        }
        left -= 1;
        found.seen += 1;
        let read = |name: &str| live::read(root, &format!("{folder}/{name}")).ok();
        let files = limits(&read);
        queue.extend(
            children(&root.join(folder.trim_start_matches('/')), live)
                .into_iter()
                .map(|name| format!("{folder}/{name}")),
        );
        if !files.is_empty() {
            found.groups.push(ControlGroup { folder, files });
        }
    }
}

/// The kernel counts a group's children in the link count of its directory, which spares listing
/// the sixty files of one that has none.
fn children(folder: &PathBuf, live: bool) -> Vec<String> {
    if live && fs::metadata(folder).is_ok_and(|meta| meta.nlink() == 2) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let folders = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    let mut names: Vec<String> =
        folders.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Adds files by name where they are there.
fn add(
    files: &mut BTreeMap<String, String>,
    read: &dyn Fn(&str) -> Option<String>,
    names: &[&str],
) {
    files.extend(names.iter().filter_map(|name| Some(((*name).to_owned(), read(name)?))));
}

fn unified(read: &dyn Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    if read("cpu.max").is_some_and(|text| !text.starts_with("max")) {
        add(&mut files, read, &["cpu.max", "cpu.stat"]);
    }
    if read("cpuset.cpus.partition").is_some_and(|text| text.trim() != "member") {
        add(&mut files, read, &["cpuset.cpus.partition", "cpuset.cpus", "cpuset.cpus.effective"]);
    }
    let pressed = |text: String| {
        let counts = text.lines().filter_map(|line| line.split_once(' '));
        let mut limits = counts.filter(|(name, _)| *name != "low");
        limits.any(|(_, count)| count.trim() != "0")
    };
    if read("memory.events").is_some_and(pressed) {
        add(&mut files, read, &["memory.events", "memory.high", "memory.max"]);
    }
    files
}

fn cpu(read: &dyn Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    if read("cpu.cfs_quota_us").is_some_and(|text| !text.starts_with('-')) {
        add(&mut files, read, &["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"]);
    }
    files
}

fn cpuset(read: &dyn Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    add(&mut files, read, &["cpuset.cpus", "cpuset.cpu_exclusive", "cpuset.sched_load_balance"]);
    files
}

fn memory(read: &dyn Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    if read("memory.failcnt").is_some_and(|text| text.trim() != "0") {
        add(&mut files, read, &["memory.failcnt", "memory.limit_in_bytes"]);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("sys/fs/cgroup").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn groups_of_version_2_are_kept_if_they_limit_something() {
        let root = tree(&[
            ("cgroup.controllers", "cpu memory\n"),
            ("a/cpu.max", "max 100000\n"),
            ("a/memory.events", "low 3\nhigh 0\nmax 0\noom 0\n"),
            ("a/b/cpu.max", "50000 100000\n"),
            ("a/b/cpu.stat", "nr_throttled 7\n"),
            ("c/cpuset.cpus.partition", "isolated\n"),
            ("d/memory.events", "low 0\nhigh 2\n"),
        ]);
        let host = Host::from_path(root.path()).unwrap();
        let found = host.control_groups().unwrap();
        assert_eq!(found.unified.as_deref(), Some("/sys/fs/cgroup"));
        let folders: Vec<&str> = found.groups.iter().map(|g| g.folder.as_str()).collect();
        assert_eq!(folders, ["/sys/fs/cgroup/c", "/sys/fs/cgroup/d", "/sys/fs/cgroup/a/b"]);
        assert_eq!(found.groups[2].files["cpu.stat"], "nr_throttled 7\n");
        assert_eq!((found.seen, found.truncated), (5, false));
    }

    #[test]
    fn groups_of_version_1_are_read_per_controller() {
        let root = tree(&[
            ("cpu/x/cpu.cfs_quota_us", "20000\n"),
            ("cpu/y/cpu.cfs_quota_us", "-1\n"),
            ("cpuset/cpuset.cpus", "0-3\n"),
            ("memory/z/memory.failcnt", "4\n"),
        ]);
        let found = Host::from_path(root.path()).unwrap().control_groups().unwrap();
        let folders: Vec<&str> = found.groups.iter().map(|g| g.folder.as_str()).collect();
        assert_eq!(
            folders,
            ["/sys/fs/cgroup/cpu/x", "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/memory/z"]
        );
        assert_eq!(found.unified, None);
    }

    #[test]
    fn a_host_with_more_groups_than_are_looked_at_says_so() {
        let names: Vec<String> = (0..MOST + 5).map(|n| format!("g{n}/cpu.max")).collect();
        let mut files: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "max 1\n")).collect();
        files.push(("cgroup.controllers", "cpu\n"));
        let root = tree(&files);
        let found = Host::from_path(root.path()).unwrap().control_groups().unwrap();
        assert!(found.truncated && found.seen == MOST);
    }

    #[test]
    fn a_host_without_control_groups_has_none() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::from_path(root.path()).unwrap();
        assert_eq!(host.control_groups().unwrap_err().trouble, Trouble::Missing);
    }
}
