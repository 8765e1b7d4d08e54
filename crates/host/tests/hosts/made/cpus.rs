//! CPUs, topology, kernel release, boot line and the kernel's log about them.

use quietcore_measure::CpuSet;
use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use super::{LAPTOP_CPUS, SERVER_CPUS, SERVER_ISOLATED, file, files, folder};

const CPU: &str = "/sys/devices/system/cpu";

pub fn server(host: &mut Snapshot) {
    let isolated = SERVER_ISOLATED;
    host.set(
        "cmdline",
        json!(format!(
            "BOOT_IMAGE=/boot/vmlinuz-6.1.0-50-amd64 root=/dev/sda1 ro quiet \
             isolcpus=managed_irq,domain,{isolated} nohz_full={isolated} rcu_nocbs={isolated} \
             irqaffinity=0-1,20-41,60-79 intel_idle.max_cstate=1 processor.max_cstate=1 \
             transparent_hugepage=never skew_tick=1 nowatchdog mce=ignore_ce audit=0 \
             mitigations=off tsc=reliable"
        )),
    );
    kernel(host, "6.1.0-50-amd64", 394_000_000);
    host.set(
        "kernel log",
        json!({"wrapped": false, "lines": [
            {"at_us": 0, "text": "rcu: \tOffload RCU callbacks from CPUs: 2-19,42-59."},
            {"at_us": 1000, "text": "NO_HZ: Full dynticks CPUs: 2-19,42-59."},
            {"at_us": 2000, "text": "clocksource: Switched to clocksource tsc"},
        ]}),
    );
    sets(host, SERVER_CPUS, isolated, isolated);
    info(host, "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", "");
    folder(host, "/sys/devices/system/node", &["node0", "node1"]);
    file(host, "/sys/devices/system/node/node0/cpulist", "0-19,40-59\n");
    file(host, "/sys/devices/system/node/node1/cpulist", "20-39,60-79\n");
    one_kind(host);
    for cpu in 0..SERVER_CPUS {
        let core = cpu % 40;
        let (package, llc) = if core < 20 { ("0", "0-19,40-59") } else { ("1", "20-39,60-79") };
        place(host, cpu, package, &format!("{core},{}", core + 40), llc);
    }
}

pub fn laptop(host: &mut Snapshot) {
    host.set(
        "cmdline",
        json!("BOOT_IMAGE=/boot/vmlinuz-6.1.0-50-amd64 root=/dev/nvme0n1p2 ro quiet splash"),
    );
    kernel(host, "6.1.0-50-amd64", 16_000_000);
    host.set(
        "kernel log",
        json!({"wrapped": false, "lines": [
            {"at_us": 2000, "text": "clocksource: Switched to clocksource tsc"},
        ]}),
    );
    sets(host, LAPTOP_CPUS, "", "(null)");
    info(host, "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "");
    folder(host, "/sys/devices/system/node", &["node0"]);
    file(host, "/sys/devices/system/node/node0/cpulist", "0-7\n");
    one_kind(host);
    for cpu in 0..LAPTOP_CPUS {
        place(host, cpu, "0", &format!("{},{}", cpu % 4, cpu % 4 + 4), "0-7");
    }
}

fn kernel(host: &mut Snapshot, release: &str, memory_kib: u64) {
    file(host, "/proc/sys/kernel/osrelease", format!("{release}\n"));
    file(
        host,
        "/proc/meminfo",
        format!("MemTotal:       {memory_kib} kB\nMemAvailable:   {} kB\n", memory_kib / 2),
    );
    for (option, value) in [
        ("HZ", Some("250")),
        ("NO_HZ_FULL", Some("y")),
        ("RCU_NOCB_CPU", Some("y")),
        ("CPU_ISOLATION", Some("y")),
    ] {
        host.set(&format!("config {option}"), json!(value));
    }
}

fn sets(host: &mut Snapshot, cpus: usize, isolated: &str, nohz_full: &str) {
    let all = CpuSet::first(cpus).to_string();
    files(
        host,
        CPU,
        &[("possible", &all), ("online", &all), ("isolated", isolated), ("nohz_full", nohz_full)],
    );
}

fn info(host: &mut Snapshot, model: &str, more_flags: &str) {
    let flags = "fpu vme de pse tsc msr pae mce cx8 apic sep constant_tsc nonstop_tsc aperfmperf \
                 hwp hwp_epp tsc_deadline_timer tsc_known_freq epb";
    file(
        host,
        "/proc/cpuinfo",
        format!(
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: {model}\nflags\t\t: {flags}{more_flags}\n"
        ),
    );
}

/// All cores are alike: neither Intel's device per kind nor Arm's capacities are there.
fn one_kind(host: &mut Snapshot) {
    host.set("read /sys/devices/cpu_core/cpus", Value::Null);
    host.set(&format!("read {CPU}/cpu0/cpu_capacity"), Value::Null);
}

fn place(host: &mut Snapshot, cpu: usize, package: &str, siblings: &str, llc: &str) {
    let folder = format!("{CPU}/cpu{cpu}");
    files(
        host,
        &format!("{folder}/topology"),
        &[("thread_siblings_list", siblings), ("physical_package_id", package)],
    );
    file(host, &format!("{folder}/cache/index3/shared_cpu_list"), format!("{llc}\n"));
}
