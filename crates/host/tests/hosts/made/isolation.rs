//! Scheduler, RCU, watchdogs, control groups and the boot loader's files.

use quietcore_measure::CpuSet;
use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use super::{SERVER_CPUS, SERVER_ISOLATED, file, files};

const SLICE: &str = "/user.slice/user-0.slice/session-1.scope";
const SERVICE: &str = "/system.slice/engine.service";

pub fn server(host: &mut Snapshot) {
    let keep = CpuSet::first(SERVER_CPUS).minus(&CpuSet::parse_list(SERVER_ISOLATED).unwrap());
    let all = CpuSet::first(SERVER_CPUS).to_mask(SERVER_CPUS);
    workqueues(host, &keep.to_mask(SERVER_CPUS), &all);
    sysctls(
        host,
        &[
            ("kernel/watchdog", "0"),
            ("kernel/soft_watchdog", "0"),
            ("kernel/nmi_watchdog", "0"),
            ("kernel/watchdog_cpumask", &keep.to_string()),
            ("kernel/sched_rt_runtime_us", "-1"),
            ("kernel/timer_migration", "0"),
            ("kernel/sched_autogroup_enabled", "0"),
            ("vm/stat_interval", "120"),
        ],
    );
    file(host, "/sys/kernel/debug/sched/preempt", "none voluntary (full)\n");
    pressure(host, "0.10");
    groups(host, "0-79");
    for pid in [4711, 4720, 4730] {
        file(host, &format!("/proc/{pid}/cgroup"), format!("0::{SERVICE}\n"));
    }
    for group in ["", "/system.slice"] {
        host.set(
            &format!("read /sys/fs/cgroup{group}/cpuset.cpus.effective"),
            json!(format!("0-{}\n", SERVER_CPUS - 1)),
        );
    }
    host.set(&format!("read /sys/fs/cgroup{SERVICE}/cpuset.cpus.effective"), Value::Null);
    // It boots over the network: no loader's file is on its disk.
    host.set("boot files", Value::Null);
}

pub fn laptop(host: &mut Snapshot) {
    workqueues(host, "ff", "ff");
    sysctls(
        host,
        &[
            ("kernel/watchdog", "1"),
            ("kernel/soft_watchdog", "1"),
            ("kernel/nmi_watchdog", "1"),
            ("kernel/watchdog_cpumask", "0-7"),
            ("kernel/sched_rt_runtime_us", "950000"),
            ("kernel/timer_migration", "1"),
            ("kernel/sched_autogroup_enabled", "1"),
            ("vm/stat_interval", "1"),
        ],
    );
    file(host, "/sys/kernel/debug/sched/preempt", "none (voluntary) full\n");
    pressure(host, "2.31");
    groups(host, "0-7");
    loader(host, "/dev/nvme0n1p2", "quiet splash");
}

fn workqueues(host: &mut Snapshot, all: &str, writeback: &str) {
    file(host, "/sys/devices/virtual/workqueue/cpumask", format!("{all}\n"));
    file(host, "/sys/bus/workqueue/devices/writeback/cpumask", format!("{writeback}\n"));
}

fn sysctls(host: &mut Snapshot, values: &[(&str, &str)]) {
    files(host, "/proc/sys", values);
    file(host, "/proc/sys/kernel/sched_rt_period_us", "1000000\n");
    file(host, "/sys/kernel/rcu_expedited", "0\n");
    file(host, "/sys/kernel/rcu_normal", "0\n");
    host.set("read /sys/kernel/rcu_stall_count", Value::Null);
    host.set("link /proc/self", json!("2000"));
    file(host, "/etc/systemd/system.conf", "[Manager]\n#CPUAffinity=\n");
    for (option, value) in [("PREEMPT_RT", "n"), ("PREEMPT_DYNAMIC", "y"), ("RT_GROUP_SCHED", "n")]
    {
        host.set(&format!("config {option}"), json!(value));
    }
}

fn pressure(host: &mut Snapshot, avg60: &str) {
    file(
        host,
        "/proc/pressure/cpu",
        format!(
            "some avg10=0.00 avg60={avg60} avg300=0.05 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        ),
    );
}

/// No group limits anything; the shell that runs the audit stands in a session.
fn groups(host: &mut Snapshot, cpus: &str) {
    host.set(
        "control groups",
        json!({"unified": "/sys/fs/cgroup", "groups": [], "seen": 64, "truncated": false}),
    );
    file(host, "/proc/self/cgroup", format!("0::{SLICE}\n"));
    let mut group = SLICE;
    while let Some((above, _)) = group.rsplit_once('/') {
        host.set(&format!("read /sys/fs/cgroup{group}/cpuset.cpus.effective"), Value::Null);
        group = above;
    }
    file(host, "/sys/fs/cgroup/cpuset.cpus.effective", format!("{cpus}\n"));
}

/// As Debian's installer and update-grub leave them.
fn loader(host: &mut Snapshot, root: &str, line: &str) {
    let kernel = "/boot/vmlinuz-6.1.0-50-amd64";
    let menu = |parameters: String| json!({"file": "/boot/grub/grub.cfg", "text": format!("linux\t{kernel} root={root} ro {parameters}")});
    host.set(
        "boot files",
        json!({
            "defaults": [
                {"file": "/etc/default/grub", "text": format!("GRUB_CMDLINE_LINUX_DEFAULT=\"{line}\"")},
                {"file": "/etc/default/grub", "text": "GRUB_CMDLINE_LINUX=\"\""},
            ],
            "entries": [menu(format!(" {line}")), menu("single ".to_owned())],
            "variables": [],
            "unread": [],
        }),
    );
}
