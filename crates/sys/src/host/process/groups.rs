//! The control groups that limit a process' CPU time, version 1 and 2.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::host::{Bandwidth, Trouble, live};

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
    /// Periods in which the group ran out of time; `None` where its `cpu.stat` does not tell.
    pub throttled: Option<u64>,
    /// Time its threads were stopped for it, in microseconds, added up over CPUs.
    pub throttled_us: Option<u64>,
}

/// The process' group first, then those above it. The root of all has no limit; what is mounted in
/// a container is the container's own group, and has.
pub(super) fn read(root: &Path, pid: u32) -> Result<Vec<CpuLimit>, Trouble> {
    let groups = live::read(root, &format!("/proc/{pid}/cgroup"))?;
    let exists = |path: &str| live::exists(root, path).unwrap_or(false);
    if let Some((mounts, path)) = v1(&groups) {
        let mount = mounts.iter().map(|name| format!("{ROOT}/{name}")).find(|path| exists(path));
        if let Some(mount) = mount {
            return chain(root, &mount, path, &["cpu.cfs_quota_us", "cpu.cfs_period_us"]);
        }
    }
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.ok_or(Trouble::Missing)?;
    let hybrid = format!("{ROOT}/unified");
    let mount = if exists(&hybrid) { hybrid.as_str() } else { ROOT };
    chain(root, mount, path, &["cpu.max"])
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

fn chain(root: &Path, mount: &str, path: &str, names: &[&str]) -> Result<Vec<CpuLimit>, Trouble> {
    // "/.." is what a process outside of this cgroup namespace shows.
    if path.starts_with("/..") {
        return Err(Trouble::Other("its control group lies outside of this namespace".to_owned()));
    }
    if !live::exists(root, &format!("{mount}{path}"))? {
        return Err(Trouble::Other(format!("no folder {mount}{path}")));
    }
    let mut limits = Vec::new();
    let mut path = path.trim_end_matches('/');
    loop {
        limits.extend(limit(root, &format!("{mount}{path}"), names)?);
        match path.rsplit_once('/') {
            Some((above, _)) => path = above,
            None => return Ok(limits),
        }
    }
}

/// `None` for a group without the files that set a limit; one that cannot be read may hold any.
fn limit(root: &Path, folder: &str, names: &[&str]) -> Result<Option<CpuLimit>, Trouble> {
    let mut files = BTreeMap::new();
    for name in names {
        let path = format!("{folder}/{name}");
        match live::read(root, &path) {
            Ok(text) => files.insert(*name, text),
            Err(Trouble::Missing) => return Ok(None),
            Err(trouble) => return Err(Trouble::Other(format!("{path}: {trouble}"))),
        };
    }
    if let Ok(stat) = live::read(root, &format!("{folder}/cpu.stat")) {
        files.insert("cpu.stat", stat);
    }
    let bandwidth = Bandwidth::parse(|name| files.get(name).cloned());
    let bandwidth = bandwidth
        .ok_or_else(|| Trouble::Other(format!("{folder}: expected a quota and a period")))?;
    Ok(Some(CpuLimit {
        group: folder.to_owned(),
        quota_us: bandwidth.quota_us,
        period_us: bandwidth.period_us,
        throttled: bandwidth.throttled,
        throttled_us: bandwidth.throttled_us,
    }))
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
        assert_eq!((limits[1].throttled, limits[1].throttled_us), (Some(4), Some(77)));
        assert_eq!(limits[0].throttled, None, "without cpu.stat nobody counts");
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
        assert_eq!((limits[0].quota_us, limits[0].throttled_us), (None, Some(5)));
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
    fn the_mount_of_a_container_has_its_limit() {
        let root = tree(&[
            ("/proc/7/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/cpu.max", "200000 100000\n"),
            ("/sys/fs/cgroup/cpu.stat", "nr_throttled 9\nthrottled_usec 5\n"),
        ]);
        let limits = read(root.path(), 7).unwrap();
        assert_eq!(limits.len(), 1);
        assert_eq!(limits[0].group, "/sys/fs/cgroup");
        assert_eq!((limits[0].quota_us, limits[0].throttled), (Some(200_000), Some(9)));
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_not_taken_for_none() {
        // A folder in the file's place: there, and not to be read, whoever asks.
        let unreadable = tree(&[("/proc/7/cgroup", "0::/a\n"), ("/sys/fs/cgroup/a/cpu.max/x", "")]);
        assert!(matches!(read(unreadable.path(), 7), Err(Trouble::Other(_))));
        let garbage =
            tree(&[("/proc/7/cgroup", "0::/a\n"), ("/sys/fs/cgroup/a/cpu.max", "five\n")]);
        assert!(matches!(read(garbage.path(), 7), Err(Trouble::Other(_))));
    }

    #[test]
    fn the_root_group_has_no_limit() {
        let root = tree(&[("/proc/7/cgroup", "0::/\n"), ("/sys/fs/cgroup/cgroup.procs", "")]);
        assert_eq!(read(root.path(), 7), Ok(vec![]));
    }
}
