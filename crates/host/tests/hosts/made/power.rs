//! Idle states, frequency, heat, power limits and the registers that count SMIs and cycles.

use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use super::{LAPTOP_CPUS, SERVER_CPUS, file, files, folder, later};

const CPU: &str = "/sys/devices/system/cpu";

/// Name, exit latency.
type State = (&'static str, u32);

/// What intel_idle offers on the server with max_cstate=1.
const SERVER_STATES: &[State] = &[("POLL", 0), ("C1", 2)];
/// What intel_idle offers on the laptop.
const LAPTOP_STATES: &[State] = &[
    ("POLL", 0),
    ("C1", 2),
    ("C1E", 10),
    ("C3", 70),
    ("C6", 85),
    ("C7s", 124),
    ("C8", 200),
    ("C9", 480),
    ("C10", 890),
];

pub fn server(host: &mut Snapshot) {
    idle(host, SERVER_CPUS, SERVER_STATES);
    for cpu in 0..SERVER_CPUS {
        frequency(
            host,
            cpu,
            "performance",
            "performance",
            [2_500_000, 2_500_000],
            [1_000_000, 3_900_000],
        );
        file(host, &format!("{CPU}/cpu{cpu}/cpufreq/base_frequency"), "2500000\n");
        file(host, &format!("{CPU}/cpufreq/policy{cpu}/base_frequency"), "2500000\n");
        file(host, &format!("{CPU}/cpu{cpu}/power/energy_perf_bias"), "0\n");
        throttles(host, cpu, [0, 0]);
        registers(host, cpu);
    }
    policies(host, SERVER_CPUS);
    file(host, &format!("{CPU}/intel_pstate/no_turbo"), "1\n");
    uncore(host);
    powercap(
        host,
        &[("intel-rapl:0", "package-0"), ("intel-rapl:1", "package-1")],
        [150_000_000, 150_000_000],
    );
    sensors(host, &[("hwmon2", 0, 58_000), ("hwmon3", 1, 55_000)]);
    host.set("msr 2 0x1fc", json!(0x24_005c_u64));
}

pub fn laptop(host: &mut Snapshot) {
    idle(host, LAPTOP_CPUS, LAPTOP_STATES);
    for cpu in 0..LAPTOP_CPUS {
        frequency(
            host,
            cpu,
            "powersave",
            "balance_performance",
            [400_000, 4_200_000],
            [400_000, 4_200_000],
        );
        file(host, &format!("{CPU}/cpufreq/policy{cpu}/base_frequency"), "2100000\n");
        throttles(host, cpu, [0, 17]);
    }
    policies(host, LAPTOP_CPUS);
    file(host, &format!("{CPU}/intel_pstate/no_turbo"), "0\n");
    powercap(host, &[("intel-rapl:0", "package-0")], [25_000_000, 15_000_000]);
    sensors(host, &[("hwmon4", 0, 62_000)]);
    // The msr module is not loaded.
    host.set("msr 0 0x34", Value::Null);
}

fn idle(host: &mut Snapshot, cpus: usize, states: &[State]) {
    files(
        host,
        &format!("{CPU}/cpuidle"),
        &[("current_driver", "intel_idle"), ("current_governor", "menu")],
    );
    host.set("cpu_dma_latency", json!(2_000_000_000));
    let names: Vec<String> = (0..states.len()).map(|index| format!("state{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for cpu in 0..cpus {
        let cpuidle = format!("{CPU}/cpu{cpu}/cpuidle");
        folder(host, &cpuidle, &names);
        for (index, (name, latency)) in states.iter().enumerate() {
            files(
                host,
                &format!("{cpuidle}/state{index}"),
                &[
                    ("name", name),
                    ("latency", &latency.to_string()),
                    ("disable", "0"),
                    ("usage", "1000"),
                    ("time", "500000"),
                ],
            );
        }
        file(host, &format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us"), "0\n");
    }
}

fn frequency(
    host: &mut Snapshot,
    cpu: usize,
    governor: &str,
    preference: &str,
    range: [u32; 2],
    hardware: [u32; 2],
) {
    files(
        host,
        &format!("{CPU}/cpufreq/policy{cpu}"),
        &[
            ("affected_cpus", &cpu.to_string()),
            ("scaling_driver", "intel_pstate"),
            ("scaling_governor", governor),
            ("energy_performance_preference", preference),
            ("scaling_min_freq", &range[0].to_string()),
            ("scaling_max_freq", &range[1].to_string()),
            ("cpuinfo_min_freq", &hardware[0].to_string()),
            ("cpuinfo_max_freq", &hardware[1].to_string()),
        ],
    );
    host.set(&format!("read {CPU}/cpufreq/policy{cpu}/bios_limit"), Value::Null);
}

fn policies(host: &mut Snapshot, cpus: usize) {
    let names: Vec<String> = (0..cpus).map(|cpu| format!("policy{cpu}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    folder(host, &format!("{CPU}/cpufreq"), &names);
}

fn throttles(host: &mut Snapshot, cpu: usize, counts: [u32; 2]) {
    files(
        host,
        &format!("{CPU}/cpu{cpu}/thermal_throttle"),
        &[
            ("core_throttle_count", &counts[0].to_string()),
            ("package_throttle_count", &counts[1].to_string()),
            ("core_throttle_total_time_ms", "0"),
            ("package_throttle_total_time_ms", &(counts[1] * 3).to_string()),
        ],
    );
}

/// MSRs: SMIs, and the cycles of two seconds at the rated 2.5 GHz while the engine's CPUs are busy.
fn registers(host: &mut Snapshot, cpu: usize) {
    host.set(&format!("msr {cpu} 0x34"), json!(4));
    for register in ["0xe7", "0xe8"] {
        host.set(&format!("msr {cpu} {register}"), json!(7_000_000_000_u64));
    }
    if cpu == 4 || cpu == 5 {
        for register in ["0xe7", "0xe8"] {
            later(host, &format!("msr {cpu} {register}"), json!(12_000_000_000_u64));
        }
    }
}

fn uncore(host: &mut Snapshot) {
    let uncore = format!("{CPU}/intel_uncore_frequency");
    folder(host, &uncore, &["package_00_die_00", "package_01_die_00"]);
    for package in ["package_00_die_00", "package_01_die_00"] {
        files(
            host,
            &format!("{uncore}/{package}"),
            &[("min_freq_khz", "2400000"), ("max_freq_khz", "2400000")],
        );
    }
}

fn powercap(host: &mut Snapshot, zones: &[(&str, &str)], [limit, rated]: [u32; 2]) {
    let names: Vec<&str> = zones.iter().map(|(zone, _)| *zone).collect();
    folder(host, "/sys/class/powercap", &names);
    for (zone, package) in zones {
        files(
            host,
            &format!("/sys/class/powercap/{zone}"),
            &[
                ("name", package),
                ("constraint_0_name", "long_term"),
                ("constraint_0_power_limit_uw", &limit.to_string()),
                ("constraint_0_max_power_uw", &rated.to_string()),
                ("constraint_1_name", "short_term"),
                ("constraint_1_power_limit_uw", &(u64::from(limit) * 6 / 5).to_string()),
                ("constraint_1_max_power_uw", "0"),
            ],
        );
        host.set(&format!("read /sys/class/powercap/{zone}/constraint_2_name"), Value::Null);
    }
}

fn sensors(host: &mut Snapshot, chips: &[(&str, u32, u32)]) {
    let names: Vec<&str> = chips.iter().map(|(chip, ..)| *chip).collect();
    folder(host, "/sys/class/hwmon", &names);
    for (chip, package, millidegrees) in chips {
        let folder_of = format!("/sys/class/hwmon/{chip}");
        folder(host, &folder_of, &["name", "temp1_crit", "temp1_input", "temp1_label"]);
        files(
            host,
            &folder_of,
            &[
                ("name", "coretemp"),
                ("temp1_label", &format!("Package id {package}")),
                ("temp1_input", &millidegrees.to_string()),
                ("temp1_crit", "100000"),
            ],
        );
    }
}
