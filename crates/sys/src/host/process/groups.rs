//! The control groups that limit a process' CPU time, version 1 and 2.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::host::{Trouble, live};

const ROOT: &str = "/sys/fs/cgroup";

/// The limit of one control group on CPU time (CFS bandwidth).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLimit {
    /// The folder of the group.
    pub group: String,
    /// CPU time per period in microseconds; `None` without a limit.
    pub quota_us: Option<u64>,
    /// The period in microseconds.
    pub period_us: u64,
    /// Periods in which the group ran out of time.
    pub throttled: u64,
    /// Time its threads were stopped for it, in microseconds, added up over CPUs.
    pub throttled_us: u64,
}

/// The process' group first, then those above it. The root group has no limit and no entry.
pub(super) fn read(root: &Path, pid: u32) -> Result<Vec<CpuLimit>, Trouble> {
    let groups = live::read(root, &format!("/proc/{pid}/cgroup"))?;
    let exists = |path: &str| live::exists(root, path).unwrap_or(false);
    if let Some((mounts, path)) = v1(&groups) {
        let mount = mounts.iter().map(|name| format!("{ROOT}/{name}")).find(|path| exists(path));
        if let Some(mount) = mount {
            return Ok(chain(&mount, path, |folder| limit_v1(root, folder)));
        }
    }
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.ok_or(Trouble::Missing)?;
    let hybrid = format!("{ROOT}/unified");
    let mount = if exists(&hybrid) { hybrid.as_str() } else { ROOT };
    // "/.." is what a process outside of this cgroup namespace shows.
    if path.starts_with("/..") {
        return Err(Trouble::Other("its control group lies outside of this namespace".to_owned()));
    }
    if !exists(&format!("{mount}{path}")) {
        return Err(Trouble::Other(format!("no folder {mount}{path}")));
    }
    Ok(chain(mount, path, |folder| limit_v2(root, folder)))
}

/// The controller's folder names (`cpu,cpuacct`, `cpu`) and the path of the group.
fn v1(groups: &str) -> Option<(Vec<String>, &str)> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let has_cpu = controllers.split(',').any(|controller| controller == "cpu");
        has_cpu.then(|| (vec![controllers.to_owned(), "cpu".to_owned()], path))
    })
}

fn chain(mount: &str, path: &str, limit: impl Fn(&str) -> Option<CpuLimit>) -> Vec<CpuLimit> {
    let mut limits = Vec::new();
    let mut path = path.trim_end_matches('/');
    while !path.is_empty() {
        limits.extend(limit(&format!("{mount}{path}")));
        path = path.rsplit_once('/').map_or("", |(above, _)| above);
    }
    limits
}

fn limit_v2(root: &Path, folder: &str) -> Option<CpuLimit> {
    let max = live::read(root, &format!("{folder}/cpu.max")).ok()?;
    let (quota, period) = max.trim().split_once(' ')?;
    let stat = live::read(root, &format!("{folder}/cpu.stat")).unwrap_or_default();
    Some(CpuLimit {
        group: folder.to_owned(),
        quota_us: quota.parse().ok(),
        period_us: period.parse().ok()?,
        throttled: value(&stat, "nr_throttled"),
        throttled_us: value(&stat, "throttled_usec"),
    })
}

fn limit_v1(root: &Path, folder: &str) -> Option<CpuLimit> {
    let number =
        |name: &str| live::read(root, &format!("{folder}/{name}")).ok()?.trim().parse().ok();
    let quota: i64 = number("cpu.cfs_quota_us")?;
    let period: i64 = number("cpu.cfs_period_us")?;
    let stat = live::read(root, &format!("{folder}/cpu.stat")).unwrap_or_default();
    Some(CpuLimit {
        group: folder.to_owned(),
        // -1 is "no limit".
        quota_us: u64::try_from(quota).ok(),
        period_us: u64::try_from(period).ok()?,
        throttled: value(&stat, "nr_throttled"),
        throttled_us: value(&stat, "throttled_time") / 1000,
    })
}

fn value(stat: &str, name: &str) -> u64 {
    let mut pairs = stat.lines().filter_map(|line| line.split_once(' '));
    let found = pairs.find(|(key, _)| *key == name);
    found.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn version_2_is_read_up_to_the_root() {
        let root = tree(&[
            ("/proc/7/cgroup", "0::/a.slice/b\n"),
            ("/sys/fs/cgroup/a.slice/cpu.max", "200000 100000\n"),
            (
                "/sys/fs/cgroup/a.slice/cpu.stat",
                "usage_usec 9\nnr_throttled 4\nthrottled_usec 77\n",
            ),
            ("/sys/fs/cgroup/a.slice/b/cpu.max", "max 100000\n"),
        ]);
        let limits = read(root.path(), 7).unwrap();
        assert_eq!(limits.len(), 2);
        assert_eq!((limits[0].quota_us, limits[0].period_us), (None, 100_000));
        assert_eq!(limits[1].group, "/sys/fs/cgroup/a.slice");
        assert_eq!(limits[1].quota_us, Some(200_000));
        assert_eq!((limits[1].throttled, limits[1].throttled_us), (4, 77));
    }

    #[test]
    fn version_1_is_read_from_the_controllers_own_tree() {
        let root = tree(&[
            ("/proc/7/cgroup", "4:cpu,cpuacct:/x\n2:cpuset:/\n0::/y\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.stat", "nr_throttled 2\nthrottled_time 5000\n"),
        ]);
        let limits = read(root.path(), 7).unwrap();
        assert_eq!(limits.len(), 1);
        assert_eq!((limits[0].quota_us, limits[0].throttled_us), (None, 5));
    }

    #[test]
    fn what_cannot_be_seen_is_not_taken_for_no_limit() {
        let root = tree(&[("/proc/7/cgroup", "0::/../x\n"), ("/proc/8/cgroup", "0::/gone\n")]);
        assert!(matches!(read(root.path(), 7), Err(Trouble::Other(_))));
        assert!(matches!(read(root.path(), 8), Err(Trouble::Other(_))));
        assert_eq!(read(root.path(), 9), Err(Trouble::Missing));
        let garbage = tree(&[("/proc/7/cgroup", ":::\n::\n\n")]);
        assert_eq!(read(garbage.path(), 7), Err(Trouble::Missing));
    }

    #[test]
    fn the_root_group_has_no_limit() {
        let root = tree(&[("/proc/7/cgroup", "0::/\n"), ("/sys/fs/cgroup/cgroup.procs", "")]);
        assert_eq!(read(root.path(), 7), Ok(vec![]));
    }
}
