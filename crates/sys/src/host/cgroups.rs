//! Control groups, in one question: a host may have hundreds, and only those that limit something
//! are worth keeping.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
    /// How many groups had files or children that could not be read, though they are there.
    #[serde(default)]
    pub unread: usize,
    /// The root of version 2 is a container's own group: those above and beside it are out of
    /// sight.
    #[serde(default)]
    pub nested: bool,
}

/// A control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlGroup {
    /// Its directory.
    pub folder: String,
    /// The texts of those of its files that set a limit, or tell what one did.
    pub files: BTreeMap<String, String>,
}

/// A limit on CPU time (CFS bandwidth), and what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// CPU time per period in microseconds; `None` without a limit.
    pub quota_us: Option<u64>,
    /// The period in microseconds.
    pub period_us: u64,
    /// Periods in which the group ran out of time; `None` where `cpu.stat` does not tell.
    pub throttled: Option<u64>,
    /// Time its threads were stopped for it, in microseconds, added up over CPUs.
    pub throttled_us: Option<u64>,
}

impl Bandwidth {
    /// From a group's files by name. Version 2: `cpu.max` holds `50000 100000`. Version 1: two
    /// files, and the time in nanoseconds. `None` where they are not there, or make no sense.
    pub fn parse(file: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let (quota_us, period_us) = match file("cpu.max") {
            Some(max) => {
                let (quota, period) = max.trim().split_once(' ')?;
                let quota = match quota {
                    "max" => None,
                    number => Some(number.parse().ok()?),
                };
                (quota, period.parse().ok()?)
            }
            None => {
                // -1 is "no limit".
                let quota: i64 = file("cpu.cfs_quota_us")?.trim().parse().ok()?;
                let period = file("cpu.cfs_period_us")?.trim().parse().ok()?;
                (u64::try_from(quota).ok(), period)
            }
        };
        let stat = file("cpu.stat").unwrap_or_default();
        let value = |name: &str| {
            let mut pairs = stat.lines().filter_map(|line| line.split_once(' '));
            pairs.find(|(key, _)| *key == name)?.1.trim().parse::<u64>().ok()
        };
        let throttled_us =
            value("throttled_usec").or_else(|| value("throttled_time").map(|ns| ns / 1000));
        Some(Self { quota_us, period_us, throttled: value("nr_throttled"), throttled_us })
    }
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
        // The kernel gives every group this file but the root of all.
        found.nested = live::exists(root, &format!("{folder}/cgroup.events"))?;
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
        let unread = Cell::new(false);
        let note = |trouble: &Trouble| unread.set(unread.get() || *trouble != Trouble::Missing);
        let read =
            |name: &str| live::read(root, &format!("{folder}/{name}")).inspect_err(note).ok();
        let files = limits(&read);
        let below = children(root, &folder, live).inspect_err(note).unwrap_or_default();
        queue.extend(below.into_iter().map(|name| format!("{folder}/{name}")));
        found.unread += usize::from(unread.get());
        if !files.is_empty() {
            found.groups.push(ControlGroup { folder, files });
        }
    }
}

/// The kernel counts a group's children in the link count of its directory, which spares listing
/// the sixty files of one that has none.
fn children(root: &Path, folder: &str, live: bool) -> Result<Vec<String>, Trouble> {
    let folder = live::below(root, folder)?;
    if live && fs::metadata(&folder).is_ok_and(|meta| meta.nlink() == 2) {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder)?;
    let folders = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    let mut names: Vec<String> =
        folders.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
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
    fn a_group_that_cannot_be_read_is_counted_and_a_containers_root_is_told_from_the_real_one() {
        // A folder in a file's place: there, and not to be read, whoever asks.
        let root = tree(&[
            ("cgroup.controllers", "cpu\n"),
            ("a/cpu.max/x", ""),
            ("b/cpu.max", "max 100000\n"),
        ]);
        let found = Host::from_path(root.path()).unwrap().control_groups().unwrap();
        assert_eq!((found.unread, found.nested), (1, false));
        fs::write(root.path().join("sys/fs/cgroup/cgroup.events"), "populated 1\n").unwrap();
        let found = Host::from_path(root.path()).unwrap().control_groups().unwrap();
        assert!(found.nested);
    }

    #[test]
    fn bandwidth_of_both_versions_is_in_microseconds_and_a_missing_count_is_not_zero() {
        let of = |files: &[(&str, &str)]| {
            let files: BTreeMap<String, String> =
                files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            Bandwidth::parse(|name| files.get(name).cloned())
        };
        let v2 = of(&[
            ("cpu.max", "50000 100000\n"),
            ("cpu.stat", "usage_usec 9\nnr_periods 10\nnr_throttled 3\nthrottled_usec 4500\n"),
        ]);
        let v1 = of(&[
            ("cpu.cfs_quota_us", "50000\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("cpu.stat", "nr_periods 10\nnr_throttled 3\nthrottled_time 4500000\n"),
        ]);
        assert_eq!(v1, v2);
        let counted = v1.unwrap();
        assert_eq!(counted.quota_us, Some(50_000));
        assert_eq!((counted.throttled, counted.throttled_us), (Some(3), Some(4500)));
        let uncounted = of(&[("cpu.max", "max 100000\n")]).unwrap();
        assert_eq!((uncounted.quota_us, uncounted.throttled), (None, None));
        for garbage in ["", "x y", "-1 5", "5", "max"] {
            assert_eq!(of(&[("cpu.max", garbage)]), None, "{garbage}");
        }
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
        fs::create_dir(root.path().join("proc")).unwrap();
        let host = Host::from_path(root.path()).unwrap();
        assert_eq!(host.control_groups().unwrap_err().trouble, Trouble::Missing);
    }
}
