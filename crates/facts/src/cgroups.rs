//! Control groups: limits on CPU time and memory, sets of CPUs, and where a process stands.

use quietcore_measure::{CpuSet, Reading};
use quietcore_sys::Host;
use quietcore_sys::host::{Bandwidth, ControlGroup, reading};

use crate::Facts;

/// The control groups that limit something.
#[derive(Clone, Debug)]
pub struct Cgroups {
    /// What they limit, or why they could not be read.
    pub limits: Reading<Limits>,
}

/// What the control groups of a host limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Groups with a quota of CPU time.
    pub quotas: Vec<Quota>,
    /// Version 2: groups that are, or should be, a partition of their own.
    pub partitions: Vec<Partition>,
    /// Version 1: every set of CPUs, the root's first.
    pub cpusets: Vec<Cpuset>,
    /// Groups that have run into a memory limit.
    pub memory: Vec<MemoryLimit>,
    /// Where version 2 is mounted, if it is.
    pub unified: Option<String>,
    /// How many groups were looked at.
    pub seen: usize,
    /// Whether there were more.
    pub truncated: bool,
    /// How many could not be read, though they are there.
    pub unread: usize,
    /// Whether those above and beside a container are out of sight.
    pub nested: bool,
}

/// A quota of CPU time (CFS bandwidth), and what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// The group's directory.
    pub folder: String,
    /// The hierarchy's version; it decides how the files are called.
    pub version: Version,
    /// CPU time per period, in microseconds.
    pub quota_us: u64,
    /// The period in microseconds.
    pub period_us: u64,
    /// In how many periods the group was stopped; `None` where `cpu.stat` does not tell.
    pub throttled: Option<u64>,
    /// For how long in all, in microseconds, summed over CPUs.
    pub throttled_us: Option<u64>,
}

/// Version of a hierarchy of control groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy per controller.
    One,
    /// One for all.
    #[default]
    Two,
}

/// A cpuset partition of version 2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The group's directory.
    pub folder: String,
    /// `root`, `isolated`, or either with `invalid (…)` behind it.
    pub state: String,
    /// The CPUs it has, or asks for.
    pub cpus: CpuSet,
}

/// A cpuset of version 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuset {
    /// The group's directory.
    pub folder: String,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Whether no sibling may have any of them.
    pub exclusive: bool,
    /// Whether the scheduler balances tasks among them.
    pub balanced: bool,
}

/// A memory limit that was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The group's directory.
    pub folder: String,
    /// The limit as written (`max`, or bytes).
    pub limit: String,
    /// How often a task had to free memory before it could go on.
    pub reached: u64,
}

/// Where a process stands: its group in each hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Controllers and path; no controllers for version 2.
    groups: Vec<(Vec<String>, String)>,
}

impl Limits {
    /// Why a limit that is not among these may be there all the same.
    pub fn incomplete(&self) -> Option<String> {
        match self {
            Self { truncated: true, seen, .. } => {
                Some(format!("only {seen} control groups were looked at"))
            }
            Self { unread: unread @ 1.., .. } => {
                Some(format!("{unread} control groups could not be read"))
            }
            Self { nested: true, .. } => {
                Some("only the control groups of this container are in sight".to_owned())
            }
            _ => None,
        }
    }
}

impl Cgroups {
    pub(crate) fn read(facts: &Facts) -> Self {
        Self { limits: limits(facts.host()) }
    }

    /// CPUs of valid isolated partitions: outside the scheduler's domains, as by isolcpus=.
    pub fn isolated(&self) -> CpuSet {
        let partitions = self.limits.value().into_iter().flat_map(|limits| &limits.partitions);
        let isolated = partitions.filter(|partition| partition.state == "isolated");
        isolated.fold(CpuSet::new(), |all, partition| all.or(&partition.cpus))
    }

    /// Where a process stands, or the audit itself.
    pub fn membership(facts: &Facts, pid: Option<u32>) -> Reading<Membership> {
        let path = match pid {
            Some(pid) => format!("/proc/{pid}/cgroup"),
            None => "/proc/self/cgroup".to_owned(),
        };
        reading(facts.host().read(&path)).map(|text| Membership::parse(&text))
    }

    /// The CPUs a member's cpuset leaves it, and the file that says so.
    pub fn cpus_of(&self, facts: &Facts, member: &Membership) -> Reading<(String, CpuSet)> {
        let limits = match self.limits.as_ref() {
            Reading::Measured(limits) => limits,
            Reading::Unsupported(why) => return Reading::Unsupported(why),
            Reading::Failed(why) => return Reading::Failed(why),
        };
        let (root, path, file) = match (member.path("cpuset"), member.path(""), &limits.unified) {
            (Some(path), _, _) => ("/sys/fs/cgroup/cpuset", path, "cpuset.effective_cpus"),
            (None, Some(path), Some(root)) => (root.as_str(), path, "cpuset.cpus.effective"),
            _ => return Reading::Unsupported("no cpuset controller".to_owned()),
        };
        // A group without the controller has the CPUs of the nearest one above that has it.
        let mut path = path.trim_end_matches('/');
        loop {
            let file = format!("{root}{path}/{file}");
            match reading(facts.host().cpu_list(&file)) {
                Reading::Unsupported(why) => match path.rsplit_once('/') {
                    Some((above, _)) => path = above,
                    None => return Reading::Unsupported(why),
                },
                found => return found.map(|cpus| (file, cpus)),
            }
        }
    }
}

/// Read anew at each call: a probe does so twice.
pub(crate) fn limits(host: &Host) -> Reading<Limits> {
    let groups = match reading(host.control_groups()) {
        Reading::Measured(groups) => groups,
        Reading::Unsupported(why) => return Reading::Unsupported(why),
        Reading::Failed(why) => return Reading::Failed(why),
    };
    let mut found = Limits {
        unified: groups.unified,
        seen: groups.seen,
        truncated: groups.truncated,
        unread: groups.unread,
        nested: groups.nested,
        ..Limits::default()
    };
    for group in &groups.groups {
        found.quotas.extend(quota(group));
        found.partitions.extend(partition(group));
        found.cpusets.extend(cpuset(group));
        found.memory.extend(memory(group));
    }
    Reading::Measured(found)
}

fn text<'a>(group: &'a ControlGroup, name: &str) -> Option<&'a str> {
    group.files.get(name).map(|text| text.trim())
}

/// The value behind `name` in a file of `name value` lines.
fn stat(text: &str, name: &str) -> Option<u64> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.into_iter().find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

fn quota(group: &ControlGroup) -> Option<Quota> {
    let bandwidth = Bandwidth::parse(|name| group.files.get(name).cloned())?;
    Some(Quota {
        folder: group.folder.clone(),
        version: if group.files.contains_key("cpu.max") { Version::Two } else { Version::One },
        quota_us: bandwidth.quota_us?,
        period_us: bandwidth.period_us,
        throttled: bandwidth.throttled,
        throttled_us: bandwidth.throttled_us,
    })
}

fn partition(group: &ControlGroup) -> Option<Partition> {
    let state = text(group, "cpuset.cpus.partition")?.to_owned();
    let name = match state.contains("invalid") {
        true => "cpuset.cpus",
        false => "cpuset.cpus.effective",
    };
    let cpus = CpuSet::parse_list(text(group, name).unwrap_or_default()).unwrap_or_default();
    Some(Partition { folder: group.folder.clone(), state, cpus })
}

fn cpuset(group: &ControlGroup) -> Option<Cpuset> {
    Some(Cpuset {
        folder: group.folder.clone(),
        exclusive: text(group, "cpuset.cpu_exclusive")? == "1",
        balanced: text(group, "cpuset.sched_load_balance")? == "1",
        cpus: CpuSet::parse_list(text(group, "cpuset.cpus")?).ok()?,
    })
}

fn memory(group: &ControlGroup) -> Option<MemoryLimit> {
    let (limit, reached) = match (text(group, "memory.events"), text(group, "memory.failcnt")) {
        (Some(events), _) => {
            let high = stat(events, "high").unwrap_or_default();
            let max = stat(events, "max").unwrap_or_default();
            let file = if high > 0 { "memory.high" } else { "memory.max" };
            (text(group, file), high.saturating_add(max))
        }
        (None, Some(count)) => (text(group, "memory.limit_in_bytes"), count.parse().ok()?),
        _ => return None,
    };
    let limit = limit.unwrap_or("?").to_owned();
    (reached > 0).then(|| MemoryLimit { folder: group.folder.clone(), limit, reached })
}

impl Membership {
    /// Reads `/proc/PID/cgroup`: `3:cpuset:/a` per hierarchy of version 1, `0::/b` for version 2.
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            // Seen from a namespace below, a path may lead out of what is mounted.
            let path = if path.contains("/..") { "/" } else { path };
            let controllers = controllers.split(',').map(str::to_owned).collect();
            path.starts_with('/').then(|| (controllers, path.to_owned()))
        };
        Self { groups: text.lines().filter_map(line).collect() }
    }

    /// The path in the hierarchy of a controller; `""` stands for version 2.
    pub fn path(&self, controller: &str) -> Option<&str> {
        let has = |(names, _): &&(Vec<String>, String)| names.iter().any(|n| n == controller);
        self.groups.iter().find(has).map(|(_, path)| path.as_str())
    }

    /// Whether a group is this process's, or above it. In a container the root of what is mounted
    /// is the container's own group.
    pub fn is_within(&self, folder: &str) -> bool {
        let above = |root: &str, path: &str| {
            let below = folder.strip_prefix(root);
            below.is_some_and(|below| below.is_empty() || is_at_or_below(path, below))
        };
        self.groups.iter().any(|(controllers, path)| {
            controllers.iter().any(|controller| match controller.as_str() {
                "" => above("/sys/fs/cgroup/unified", path) || above("/sys/fs/cgroup", path),
                name => above(&format!("/sys/fs/cgroup/{name}"), path),
            })
        })
    }
}

fn is_at_or_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn group(files: &[(&str, &str)]) -> ControlGroup {
        let files: BTreeMap<String, String> =
            files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        ControlGroup { folder: "/sys/fs/cgroup/a".to_owned(), files }
    }

    #[test]
    fn a_quota_without_statistics_has_not_been_without_effect() {
        let found = quota(&group(&[("cpu.max", "50000 100000\n")])).unwrap();
        assert_eq!((found.quota_us, found.throttled), (50_000, None));
        for garbage in ["", "max 100000", "x y", "-1 5", "5"] {
            assert_eq!(quota(&group(&[("cpu.max", garbage)])), None, "{garbage}");
        }
    }

    #[test]
    fn an_invalid_partition_has_the_cpus_it_asks_for() {
        let found = partition(&group(&[
            ("cpuset.cpus.partition", "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n"),
            ("cpuset.cpus", "2-3\n"),
            ("cpuset.cpus.effective", "0-3\n"),
        ]))
        .unwrap();
        assert_eq!(found.cpus, CpuSet::parse_list("2-3").unwrap());
        assert!(found.state.starts_with("isolated invalid"));
    }

    #[test]
    fn memory_events_count_both_limits_and_garbage_counts_nothing() {
        let events = "low 0\nhigh 12\nmax 3\noom 0\n";
        let found =
            memory(&group(&[("memory.events", events), ("memory.high", "1000\n")])).unwrap();
        assert_eq!((found.reached, found.limit.as_str()), (15, "1000"));
        assert_eq!(memory(&group(&[("memory.events", "high x\nmax\n")])), None);
        assert_eq!(memory(&group(&[("memory.failcnt", "-3")])), None);
        assert_eq!(memory(&group(&[])), None);
    }

    #[test]
    fn a_process_stands_in_one_group_per_hierarchy() {
        let member = Membership::parse("9:name=systemd:/\n3:cpu,cpuacct:/x/y\n0::/z\ngarbage\n");
        assert_eq!(member.path("cpuacct"), Some("/x/y"));
        assert_eq!(member.path(""), Some("/z"));
        assert_eq!(member.path("cpuset"), None);
        assert!(member.is_within("/sys/fs/cgroup/cpu/x"));
        assert!(member.is_within("/sys/fs/cgroup/z") && member.is_within("/sys/fs/cgroup"));
        assert!(!member.is_within("/sys/fs/cgroup/cpu/y"));
        assert!(!member.is_within("/sys/fs/cgroup/cpu/x/yy"));
        assert_eq!(Membership::parse("0::/../../a").path(""), Some("/"));
    }
}
