//! What the kernel guards against, traces, prints and was built with.

use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use super::{file, files, folder};

const FLAWS: &str = "/sys/devices/system/cpu/vulnerabilities";

pub fn server(host: &mut Snapshot) {
    common(host);
    // mitigations=off on a Cascade Lake.
    flaws(
        host,
        &[
            ("itlb_multihit", "KVM: Mitigation: VMX disabled"),
            ("mds", "Not affected"),
            ("meltdown", "Not affected"),
            ("mmio_stale_data", "Vulnerable"),
            ("retbleed", "Vulnerable"),
            ("spectre_v2", "Vulnerable, IBPB: disabled, STIBP: disabled, PBRSB-eIBRS: Vulnerable"),
            ("tsx_async_abort", "Vulnerable"),
        ],
    );
    file(host, "/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    file(host, "/sys/class/tty/console/active", "tty0\n");
    file(
        host,
        "/sys/module/pcie_aspm/parameters/policy",
        "default [performance] powersave powersupersave\n",
    );
    folder(host, "/sys/class/net", &["eth0", "lo"]);
    host.set("exists /sys/class/net/eth0/device/current_link_speed", json!(true));
    host.set("exists /sys/class/net/lo/device/current_link_speed", json!(false));
    for state in ["l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm"] {
        host.set(&format!("read /sys/class/net/eth0/device/link/{state}"), Value::Null);
    }
    file(host, "/sys/class/net/eth0/device/link/l1_aspm", "0\n");
}

pub fn laptop(host: &mut Snapshot) {
    common(host);
    flaws(
        host,
        &[
            ("mds", "Mitigation: Clear CPU buffers; SMT vulnerable"),
            ("meltdown", "Mitigation: PTI"),
            ("retbleed", "Mitigation: IBRS"),
            ("spectre_v2", "Mitigation: IBRS; IBPB: conditional; STIBP: conditional; RSB filling"),
        ],
    );
    // Secure Boot, as Debian installs it.
    file(host, "/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    file(host, "/sys/class/tty/console/active", "tty0\n");
    file(
        host,
        "/sys/module/pcie_aspm/parameters/policy",
        "[default] performance powersave powersupersave\n",
    );
}

fn common(host: &mut Snapshot) {
    for option in [
        "PROVE_LOCKING",
        "LOCK_STAT",
        "DEBUG_LOCK_ALLOC",
        "DEBUG_PREEMPT",
        "KASAN",
        "KCSAN",
        "DEBUG_OBJECTS",
        "DEBUG_KMEMLEAK",
        "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
        "SLUB_DEBUG_ON",
        "DEBUG_VM",
        "PREEMPT_TRACER",
        "IRQSOFF_TRACER",
    ] {
        host.set(&format!("config {option}"), json!("n"));
    }
    files(
        host,
        "/sys/kernel/tracing",
        &[("current_tracer", "nop"), ("tracing_on", "1"), ("events/enable", "0")],
    );
    file(host, "/proc/sys/kernel/bpf_stats_enabled", "0\n");
    file(host, "/proc/sys/kernel/printk", "4\t4\t1\t7\n");
}

fn flaws(host: &mut Snapshot, found: &[(&str, &str)]) {
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    folder(host, FLAWS, &names);
    files(host, FLAWS, found);
}
