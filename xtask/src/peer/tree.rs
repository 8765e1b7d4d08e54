//! A recorded host as files, for programs that read /proc and /sys themselves.
//!
//! Only what was recorded is laid out, and what the kernel would show beside it under another
//! name; this machine's own files never fill a gap. A bad host differs from the good one in a few
//! of its thousands of files, so only those are written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::bad_host::Reading;

/// A folder that becomes one host after the other: `proc`, `sys`, and in `bin` the programs that
/// answer for it.
pub struct Tree {
    /// Where it is.
    pub folder: PathBuf,
    laid_out: Plan,
}

/// What is where, below the folder.
type Plan = BTreeMap<PathBuf, Node>;

#[derive(Debug, PartialEq, Eq)]
enum Node {
    File(String),
    Program(&'static str),
    Folder,
    Link(PathBuf),
}

impl Tree {
    /// An empty one; whatever was in `folder` is removed.
    pub fn new(folder: PathBuf) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { folder, laid_out: Plan::new() })
    }

    /// Lays out a host in the place of the one before.
    pub fn show(&mut self, host: &Reading) -> Result<()> {
        let plan = plan(host);
        let gone = self.laid_out.iter().filter(|(path, node)| plan.get(*path) != Some(node));
        for (path, node) in gone {
            self.remove(path, node, &plan).with_context(|| path.display().to_string())?;
        }
        let fresh = plan.iter().filter(|(path, node)| self.laid_out.get(*path) != Some(node));
        for (path, node) in fresh {
            node.make(&self.folder.join(path)).with_context(|| path.display().to_string())?;
        }
        self.laid_out = plan;
        Ok(())
    }

    /// Takes a node away, and the folders that only it was in.
    fn remove(&self, path: &Path, node: &Node, plan: &Plan) -> std::io::Result<()> {
        match node {
            // Its files are still to be removed; the last of them takes it along.
            Node::Folder => drop(fs::remove_dir(self.folder.join(path))),
            _ => fs::remove_file(self.folder.join(path))?,
        }
        for parent in path.ancestors().skip(1) {
            let planned = plan.get(parent) == Some(&Node::Folder);
            if planned || fs::remove_dir(self.folder.join(parent)).is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl Node {
    fn make(&self, path: &Path) -> std::io::Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        match self {
            Self::File(text) => fs::write(path, text),
            Self::Folder => fs::create_dir_all(path),
            Self::Link(to) => symlink(to, path),
            Self::Program(text) => {
                fs::write(path, text)?;
                fs::set_permissions(path, PermissionsExt::from_mode(0o755))
            }
        }
    }
}

fn plan(host: &Reading) -> Plan {
    let mut plan: Plan =
        ["proc", "sys", "bin"].map(|part| (PathBuf::from(part), Node::Folder)).into();
    let about = |kind: &'static str| {
        host.iter().filter_map(move |(key, answer)| Some((key.strip_prefix(kind)?, answer)))
    };
    for (path, answer) in about("read ") {
        // Any other answer is an error: a program is shown that the file is not there.
        if let Value::String(text) = answer {
            plan.insert(place(path), Node::File(text.clone()));
        }
    }
    if let Some(Value::String(line)) = host.get("cmdline") {
        plan.insert("proc/cmdline".into(), Node::File(format!("{line}\n")));
    }
    let absent: BTreeSet<PathBuf> = about("read ")
        .filter(|(_, answer)| answer.is_null())
        .map(|(path, _)| place(path))
        .collect();
    for (path, answer) in about("list ") {
        let Value::Array(names) = answer else { continue };
        plan.insert(place(path), Node::Folder);
        for entry in names.iter().filter_map(Value::as_str).map(|name| place(path).join(name)) {
            if !absent.contains(&entry) {
                plan.entry(entry).or_insert(Node::Folder);
            }
        }
    }
    for (path, _) in about("exists ").filter(|(_, answer)| answer == &&Value::Bool(true)) {
        plan.entry(place(path)).or_insert(Node::Folder);
    }
    share_frequency_policies(&mut plan);
    about("thread counters ").for_each(|(pid, counters)| sum_counters(&mut plan, pid, counters));
    about("ethtool ").for_each(|(nic, answer)| answer_ethtool(&mut plan, nic, answer));
    plan.insert("bin/ethtool".into(), Node::Program(ETHTOOL));
    plan.insert("bin/processes".into(), Node::File(processes(host)));
    plan.insert("bin/pgrep".into(), Node::Program(PGREP));
    plan
}

/// A recorded path. `..` is taken out by name: the recording has `device/../x` where the kernel
/// has a link.
fn place(path: &str) -> PathBuf {
    let mut place = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::ParentDir => {
                place.pop();
            }
            _ => {}
        }
    }
    place
}

/// `cpuN/cpufreq` is a link to the policy that the CPU belongs to.
fn share_frequency_policies(plan: &mut Plan) {
    const CPUS: &str = "sys/devices/system/cpu";
    let mut links = Plan::new();
    for (path, node) in plan.iter().filter(|(path, _)| path.ends_with("affected_cpus")) {
        let policy = path.parent().and_then(|policy| policy.strip_prefix(CPUS).ok());
        let policy = policy.filter(|policy| policy.starts_with("cpufreq"));
        let (Some(policy), Node::File(cpus)) = (policy, node) else { continue };
        for cpu in cpus.split_whitespace() {
            let link = Path::new(CPUS).join(format!("cpu{cpu}/cpufreq"));
            links.insert(link, Node::Link(Path::new("..").join(policy)));
        }
    }
    // A recording may hold a file by the link's name as well.
    plan.retain(|path, _| !path.ancestors().any(|above| links.contains_key(above)));
    plan.extend(links);
}

/// A process' counters, which a recording holds per thread. In `/proc/PID/status` the kernel shows
/// those of the main thread, in `/proc/PID/stat` the sums over all threads.
fn sum_counters(plan: &mut Plan, pid: &str, counters: &Value) {
    let Some(threads) = counters.as_array() else { return };
    let of_all = |key: &str| threads.iter().filter_map(|thread| thread[key].as_u64()).sum::<u64>();
    let number: Option<u64> = pid.parse().ok();
    let process = Path::new("proc").join(pid);
    if let Some(main) = threads.iter().find(|thread| thread["tid"].as_u64() == number) {
        let switches = format!(
            "voluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n",
            main["voluntary"], main["involuntary"]
        );
        let status = plan.entry(process.join("status")).or_insert(Node::File(String::new()));
        match status {
            Node::File(text) if !text.contains("ctxt_switches") => text.push_str(&switches),
            _ => {}
        }
    }
    let (minor, major) = (of_all("minor_faults"), of_all("major_faults"));
    // Parent, group, session, terminal and flags were not recorded; nobody here asks for them.
    let stat = format!("{pid} (process) S 0 0 0 0 0 0 {minor} 0 {major} 0\n");
    plan.insert(process.join("stat"), Node::File(stat));
}

/// What `pgrep` looks among: the recorded processes, and the daemons that systemd calls active.
fn processes(host: &Reading) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for task in host.get("tasks").and_then(Value::as_array).into_iter().flatten() {
        names.extend(task["name"].as_str().map(str::to_owned));
    }
    let units = host.iter().filter(|(key, _)| key.starts_with("units "));
    for (name, unit) in units.filter_map(|(_, answer)| answer.as_object()).flatten() {
        if unit["active"] == "active" {
            names.extend(name.strip_suffix(".service").map(str::to_owned));
        }
    }
    names.iter().flat_map(|name| [name.as_str(), "\n"]).collect()
}

/// What `ethtool -k` and `ethtool -g` print, as far as it was recorded.
fn answer_ethtool(plan: &mut Plan, nic: &str, answer: &Value) {
    let answers = Path::new("bin/nics").join(nic);
    let feature = |name: &str, key: &str| match answer[key].as_bool() {
        Some(on) => format!("{name}: {}\n", if on { "on" } else { "off" }),
        None => String::new(),
    };
    if answer.is_object() {
        let gro = feature("generic-receive-offload", "gro");
        let lro = feature("large-receive-offload", "lro");
        let text = format!("Features for {nic}:\n{gro}{lro}");
        plan.insert(answers.join("-k"), Node::File(text));
    }
    let rings = &answer["rings"];
    if rings.is_object() {
        let text = format!(
            "Ring parameters for {nic}:\nPre-set maximums:\nRX:\t\t{}\nTX:\t\t{}\n\
             Current hardware settings:\nRX:\t\t{}\nTX:\t\t{}\n",
            rings["rx_max"], rings["tx_max"], rings["rx"], rings["tx"]
        );
        plan.insert(answers.join("-g"), Node::File(text));
    }
}

/// Only shell builtins: the programs of this machine are out of reach where these run.
const PGREP: &str = r#"#!/bin/sh
while read -r name; do
    case "$name" in *"$1"*) exit 0 ;; esac
done < "${0%/*}/processes"
exit 1
"#;

const ETHTOOL: &str = r#"#!/bin/sh
file="${0%/*}/nics/$2/$1"
[ -f "$file" ] || exit 1
while IFS= read -r line; do printf '%s\n' "$line"; done < "$file"
"#;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_recorded_host_is_laid_out_with_what_the_kernel_shows_beside_it() {
        let folder = std::env::temp_dir().join(format!("quietcore-tree-{}", std::process::id()));
        let host: Reading = serde_json::from_value(json!({
            "cmdline": "quiet",
            "read /sys/devices/system/cpu/cpufreq/policy0/affected_cpus": "0 4\n",
            "read /sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
            "read /sys/devices/system/cpu/cpu4/cpufreq/affected_cpus": "0 4\n",
            "read /sys/class/net/eth0/device/../numa_node": "1\n",
            "read /sys/class/net/eth1": null,
            "read /sys/secret": {"error": "denied"},
            "list /sys/class/net": ["eth0", "eth1", "lo"],
            "read /proc/7/status": "Name:\tengine\n",
            "thread counters 7": [
                {"tid": 7, "voluntary": 1, "involuntary": 3, "minor_faults": 4, "major_faults": 5},
                {"tid": 8, "voluntary": 9, "involuntary": 9, "minor_faults": 1, "major_faults": 1},
            ],
            "tasks": [{"name": "irqbalance"}],
            "units tuned.service": {"tuned.service": {"active": "active"},
                                    "auditd.service": {"active": "inactive"}},
            "ethtool eth0": {"gro": true, "lro": null,
                             "rings": {"rx": 512, "rx_max": 4096, "tx": 1, "tx_max": 2}},
        }))
        .unwrap();
        let mut tree = Tree::new(folder.clone()).unwrap();
        tree.show(&host).unwrap();
        let text = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
        assert_eq!(text("proc/cmdline"), "quiet\n");
        assert_eq!(text("sys/devices/system/cpu/cpu4/cpufreq/scaling_governor"), "performance\n");
        assert_eq!(text("sys/class/net/eth0/numa_node"), "1\n");
        assert!(folder.join("sys/class/net/lo").is_dir());
        assert!(!folder.join("sys/class/net/eth1").exists(), "recorded as not there");
        assert!(!folder.join("sys/secret").exists());
        let status = "Name:\tengine\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(text("proc/7/status"), status);
        assert_eq!(text("proc/7/stat"), "7 (process) S 0 0 0 0 0 0 5 0 6 0\n");
        let run = |program: &str, args: &[&str]| {
            Command::new(folder.join("bin").join(program)).args(args).output().unwrap()
        };
        assert!(run("pgrep", &["irqbalance"]).status.success());
        assert!(run("pgrep", &["tuned"]).status.success());
        assert!(!run("pgrep", &["auditd"]).status.success());
        let features = String::from_utf8(run("ethtool", &["-k", "eth0"]).stdout).unwrap();
        assert_eq!(features, "Features for eth0:\ngeneric-receive-offload: on\n");
        let rings = String::from_utf8(run("ethtool", &["-g", "eth0"]).stdout).unwrap();
        assert!(rings.contains("Current hardware settings:\nRX:\t\t512\n"), "{rings}");
        assert!(!run("ethtool", &["-k", "lo"]).status.success());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_host_leaves_nothing_behind_for_the_next_one() {
        let folder = std::env::temp_dir().join(format!("quietcore-trees-{}", std::process::id()));
        let mut tree = Tree::new(folder.clone()).unwrap();
        let host = |answers: Value| -> Reading { serde_json::from_value(answers).unwrap() };
        let one = host(json!({
            "read /sys/a/b/c": "1\n", "read /sys/kept/x": "1\n", "read /sys/turns": "1\n",
            "list /sys/kept": ["x"], "list /sys/d": ["e"],
        }));
        let two = host(json!({
            "read /sys/turns/into": "2\n", "list /sys/kept": ["y"], "read /sys/same": "1\n",
        }));
        let listing = |folder: &Path| {
            let output = Command::new("find").arg(folder).output().unwrap();
            let mut lines: Vec<_> =
                String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        for hosts in [[&one, &two], [&two, &one]] {
            tree.show(hosts[0]).unwrap();
            tree.show(hosts[1]).unwrap();
            let after = listing(&folder);
            tree = Tree::new(folder.clone()).unwrap();
            tree.show(hosts[1]).unwrap();
            assert_eq!(after, listing(&folder));
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
