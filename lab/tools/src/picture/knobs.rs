//! Knobs: files of the kernel that can be read and written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::text::{Class, Entry, escaped};

/// Classes and where their knobs are. `*` stands for part of a name, `**` for everything below.
const CLASSES: &[(&str, &[&str])] = &[
    ("sysctl", &["proc/sys/kernel/**", "proc/sys/vm/**", "proc/sys/net/**"]),
    ("irq", &["proc/irq/default_smp_affinity", "proc/irq/*/smp_affinity"]),
    // CPUs with their idle states and frequencies, memory nodes, clocks, machine checks.
    ("system", &["sys/devices/system/**"]),
    ("workqueue", &["sys/devices/virtual/workqueue/**"]),
    (
        "mm",
        &[
            "sys/kernel/mm/transparent_hugepage/**",
            "sys/kernel/mm/ksm/**",
            "sys/kernel/mm/hugepages/**",
        ],
    ),
    (
        "net",
        &[
            "sys/class/net/*/mtu",
            "sys/class/net/*/flags",
            "sys/class/net/*/threaded",
            "sys/class/net/*/tx_queue_len",
            "sys/class/net/*/gro_flush_timeout",
            "sys/class/net/*/napi_defer_hard_irqs",
            "sys/class/net/*/queues/*/rps_cpus",
            "sys/class/net/*/queues/*/rps_flow_cnt",
            "sys/class/net/*/queues/*/xps_cpus",
            "sys/class/net/*/queues/*/xps_rxqs",
        ],
    ),
    ("module", &["sys/module/*/parameters/*"]),
    ("kernel", &["sys/kernel/*", "sys/kernel/debug/sched/**"]),
    (
        "device",
        &[
            "sys/block/*/queue/*",
            "sys/bus/pci/devices/*/power/control",
            "sys/devices/virtual/powercap/**",
        ],
    ),
];

/// Knobs that say nothing of what anybody set, and why.
const UNSTABLE: &[(&str, &str)] = &[
    ("proc/sys/kernel/tainted", "the kernel writes there what befell it"),
    ("proc/sys/net/ipv4/tcp_mem", "the kernel makes it of the memory that is free at boot"),
    ("proc/sys/net/ipv4/udp_mem", "the kernel makes it of the memory that is free at boot"),
    ("proc/sys/vm/user_reserve_kbytes", "the kernel makes it of the memory that is free at boot"),
    ("proc/sys/kernel/ns_last_pid", "every process changes it"),
    ("proc/sys/kernel/perf_event_max_sample_rate", "the kernel lowers it when sampling is slow"),
    ("proc/sys/vm/stat_refresh", "reading it makes every CPU fold its counters"),
    (
        "sys/kernel/debug/sched/domains/*/*/max_newidle_lb_cost",
        "the scheduler writes there what balancing cost it",
    ),
    (
        "sys/fs/cgroup/system.slice/systemd-fsckd.service",
        "ends by itself when no disk has been checked for half a minute",
    ),
];

/// What is taken of every cgroup, of version 2 and 1.
const CGROUP: &[&str] = &[
    "cgroup.subtree_control",
    "cgroup.type",
    "cpuset.cpus",
    "cpuset.cpus.exclusive",
    "cpuset.cpus.partition",
    "cpuset.mems",
    "cpuset.cpu_exclusive",
    "cpuset.mem_exclusive",
    "cpuset.sched_load_balance",
];

/// Every class of knobs.
pub fn take(root: &Path) -> Vec<(&'static str, Class)> {
    let mut classes: Vec<_> = CLASSES
        .iter()
        .map(|(class, patterns)| {
            let files = patterns.iter().flat_map(|pattern| matching(root, pattern));
            (*class, Class::found(files.filter_map(|file| knob(root, &file)).collect()))
        })
        .collect();
    classes.push(("cgroup", Class::found(cgroups(root))));
    classes
}

/// A knob and its value; one that cannot be read has the error for a value.
fn knob(root: &Path, file: &Path) -> Option<(String, Entry)> {
    if is_unstable(root, file) {
        return None;
    }
    let meta = fs::metadata(file).ok()?;
    let mode = meta.permissions().mode();
    let is_knob = meta.is_file() && mode & 0o444 != 0 && mode & 0o222 != 0;
    is_knob.then(|| (name(root, file), Entry::new(content(file))))
}

fn is_unstable(root: &Path, path: &Path) -> bool {
    let within = path.strip_prefix(root).unwrap_or(path);
    UNSTABLE.iter().any(|(pattern, _)| fits_path(pattern, within))
}

fn content(file: &Path) -> String {
    match read(file) {
        Ok(bytes) => escaped(&bytes),
        Err(error) => format!("unreadable: {error}"),
    }
}

/// Like `fs::read` without asking for the size, which these files do not have: there are many of
/// them, and a picture is taken after every kill.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    let (mut bytes, mut page) = (Vec::new(), [0; 4096]);
    loop {
        match file.read(&mut page)? {
            0 => return Ok(bytes),
            read => bytes.extend(&page[..read]),
        }
    }
}

/// The path on the host that is below `root`.
pub fn name(root: &Path, file: &Path) -> String {
    let within = file.strip_prefix(root).unwrap_or(file);
    format!("/{}", escaped(within.as_os_str().as_encoded_bytes()))
}

/// Every cgroup that there is, and its files.
fn cgroups(root: &Path) -> BTreeMap<String, Entry> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.join("sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for path in list(&folder).into_iter().filter(|path| !is_unstable(root, path)) {
            if path.is_dir() && !path.is_symlink() {
                found.insert(name(root, &path), Entry::new("a folder".into()));
                folders.push(path);
            } else if CGROUP.iter().any(|file| path.ends_with(file)) {
                found.insert(name(root, &path), Entry::new(content(&path)));
            }
        }
    }
    found
}

/// What is in a folder, sorted; nothing where there is none.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// The files that a pattern stands for. Links are followed where a name is matched, else links of
/// sysfs to parents would make it endless.
fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut paths = vec![root.to_path_buf()];
    for part in pattern.split('/') {
        paths = paths.iter().flat_map(|path| step(path, part)).collect();
    }
    paths
}

fn step(path: &Path, part: &str) -> Vec<PathBuf> {
    match part {
        "**" => below(path),
        _ if part.contains('*') => {
            let name = |path: &PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned());
            let all = list(path).into_iter();
            all.filter(|path| name(path).is_some_and(|name| fits(part, &name))).collect()
        }
        _ => vec![path.join(part)],
    }
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

fn fits_path(pattern: &str, path: &Path) -> bool {
    let parts: Vec<&str> = pattern.split('/').collect();
    let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
    parts.len() == names.len() && parts.iter().zip(&names).all(|(part, name)| fits(part, name))
}

/// Whether a name fits a part with at most one `*`.
fn fits(part: &str, name: &str) -> bool {
    match part.split_once('*') {
        None => part == name,
        Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_part_of_a_name() {
        assert!(fits("node*", "node0") && fits("*", "x") && fits("a", "a"));
        assert!(!fits("node*", "cpu0") && !fits("a", "b") && !fits("ab*b", "ab"));
        assert!(fits_path("a/*/c", Path::new("a/b/c")));
        assert!(!fits_path("a/*", Path::new("a/b/c")));
    }

    #[test]
    fn knobs_of_this_kernel_are_found_and_unstable_ones_are_not() {
        let classes: BTreeMap<_, _> = take(Path::new("/")).into_iter().collect();
        let Some(Class::Taken(sysctl)) = classes.get("sysctl") else { panic!("no sysctl") };
        assert!(sysctl.contains_key("/proc/sys/vm/swappiness"));
        assert!(!sysctl.contains_key("/proc/sys/kernel/ns_last_pid"));
        // It can only be read.
        assert!(!sysctl.contains_key("/proc/sys/kernel/osrelease"));
    }
}
