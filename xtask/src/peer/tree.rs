//! A recorded host as files, for programs that read /proc and /sys themselves.
//!
//! Only what was recorded is laid out, and what the kernel would show beside it under another
//! name; this machine's own files never fill a gap.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::bad_host::Reading;

/// Makes `folder` a host: `proc`, `sys`, and in `bin` the programs that answer for it.
pub fn export(host: &Reading, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    for part in ["proc", "sys", "bin"] {
        fs::create_dir_all(folder.join(part)).with_context(|| folder.display().to_string())?;
    }
    let about = |kind: &'static str| {
        host.iter().filter_map(move |(key, answer)| Some((key.strip_prefix(kind)?, answer)))
    };
    let mut absent = BTreeSet::new();
    for (path, answer) in about("read ") {
        match answer {
            Value::String(text) => write(&place(folder, path), text)?,
            Value::Null => {
                absent.insert(place(folder, path));
            }
            // Anything else is an error when read; a program is shown that the file is not there.
            _ => {}
        }
    }
    if let Some(Value::String(line)) = host.get("cmdline") {
        write(&folder.join("proc/cmdline"), &format!("{line}\n"))?;
    }
    for (path, answer) in about("list ") {
        let place = place(folder, path);
        if let Value::Array(names) = answer {
            make_folder(&place)?;
            for name in names.iter().filter_map(Value::as_str) {
                let entry = place.join(name);
                if !entry.exists() && !absent.contains(&entry) {
                    make_folder(&entry)?;
                }
            }
        }
    }
    for (path, answer) in about("exists ") {
        let place = place(folder, path);
        if answer == &Value::Bool(true) && !place.exists() {
            make_folder(&place)?;
        }
    }
    share_frequency_policies(folder)?;
    about("thread counters ")
        .try_for_each(|(pid, counters)| count_switches(folder, pid, counters))?;
    answer_pgrep(host, folder)?;
    about("ethtool ").try_for_each(|(nic, answer)| keep_ethtool(folder, nic, answer))?;
    program(folder, "ethtool", ETHTOOL)
}

/// A recorded path below the folder. `..` is taken out by name: the recording has `device/../x`
/// where the kernel has a link.
fn place(folder: &Path, path: &str) -> PathBuf {
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
    folder.join(place)
}

/// `cpuN/cpufreq` is a link to the policy that the CPU belongs to.
fn share_frequency_policies(folder: &Path) -> Result<()> {
    let cpus = folder.join("sys/devices/system/cpu");
    let Ok(policies) = fs::read_dir(cpus.join("cpufreq")) else { return Ok(()) };
    for policy in policies {
        let policy = policy?;
        let Ok(affected) = fs::read_to_string(policy.path().join("affected_cpus")) else {
            continue;
        };
        for cpu in affected.split_whitespace() {
            let link = cpus.join(format!("cpu{cpu}")).join("cpufreq");
            if !link.exists() {
                make_folder(&cpus.join(format!("cpu{cpu}")))?;
                symlink(Path::new("../cpufreq").join(policy.file_name()), &link)
                    .with_context(|| link.display().to_string())?;
            }
        }
    }
    Ok(())
}

/// A process' counters, which a recording holds per thread. In `/proc/PID/status` the kernel shows
/// those of the main thread, in `/proc/PID/stat` the sums over all threads.
fn count_switches(folder: &Path, pid: &str, counters: &Value) -> Result<()> {
    let Some(threads) = counters.as_array() else { return Ok(()) };
    let of_all = |key: &str| threads.iter().filter_map(|thread| thread[key].as_u64()).sum::<u64>();
    let number: Option<u64> = pid.parse().ok();
    let main = threads.iter().find(|thread| thread["tid"].as_u64() == number);
    let process = folder.join("proc").join(pid);
    let mut status = fs::read_to_string(process.join("status")).unwrap_or_default();
    if let Some(main) = main.filter(|_| !status.contains("ctxt_switches")) {
        status += &format!(
            "voluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n",
            main["voluntary"], main["involuntary"]
        );
        write(&process.join("status"), &status)?;
    }
    let (minor, major) = (of_all("minor_faults"), of_all("major_faults"));
    // Parent, group, session, terminal and flags were not recorded; nobody here asks for them.
    write(&process.join("stat"), &format!("{pid} (process) S 0 0 0 0 0 0 {minor} 0 {major} 0\n"))
}

/// `pgrep NAME`: the recorded processes, and the daemons that systemd calls active.
fn answer_pgrep(host: &Reading, folder: &Path) -> Result<()> {
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
    let list: String = names.iter().map(|name| format!("{name}\n")).collect();
    write(&folder.join("bin/processes"), &list)?;
    program(folder, "pgrep", PGREP)
}

/// What `ethtool -k` and `ethtool -g` print, as far as it was recorded.
fn keep_ethtool(folder: &Path, nic: &str, answer: &Value) -> Result<()> {
    let feature = |name: &str, key: &str| match answer[key].as_bool() {
        Some(on) => format!("{name}: {}\n", if on { "on" } else { "off" }),
        None => String::new(),
    };
    if answer.is_object() {
        let features =
            feature("generic-receive-offload", "gro") + &feature("large-receive-offload", "lro");
        write(
            &folder.join("bin/nics").join(nic).join("-k"),
            &format!("Features for {nic}:\n{features}"),
        )?;
    }
    let rings = &answer["rings"];
    if rings.is_object() {
        let text = format!(
            "Ring parameters for {nic}:\nPre-set maximums:\nRX:\t\t{}\nTX:\t\t{}\n\
             Current hardware settings:\nRX:\t\t{}\nTX:\t\t{}\n",
            rings["rx_max"], rings["tx_max"], rings["rx"], rings["tx"]
        );
        write(&folder.join("bin/nics").join(nic).join("-g"), &text)?;
    }
    Ok(())
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

fn program(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join("bin").join(name);
    write(&path, text)?;
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755))
        .with_context(|| path.display().to_string())
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| path.display().to_string())
}

fn write(path: &Path, text: &str) -> Result<()> {
    make_folder(path.parent().unwrap_or(path))?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

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
        export(&host, &folder).unwrap();
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
}
