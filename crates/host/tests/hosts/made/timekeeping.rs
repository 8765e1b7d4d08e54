//! Clocks: on the server chrony with the network card's clock, on the laptop systemd's client.

use quietcore_measure::CpuSet;
use quietcore_sys::host::{Snapshot, Task};
use serde_json::{Value, json};

use super::{LAPTOP_CPUS, SERVER_CPUS, SERVER_ISOLATED, files, folder};

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

pub fn server(host: &mut Snapshot) {
    let isolated = CpuSet::parse_list(SERVER_ISOLATED).unwrap();
    clock(host, "ice-0000:3b:00.0-clk", 40);
    daemon(host, 850, "chronyd", CpuSet::first(SERVER_CPUS).minus(&isolated));
    folder(host, "/proc/850/fd", &["0", "5", "6"]);
    for (fd, target) in [("0", "/dev/null"), ("5", "socket:[21034]"), ("6", "/dev/ptp0")] {
        host.set(&format!("link /proc/850/fd/{fd}"), json!(target));
    }
}

pub fn laptop(host: &mut Snapshot) {
    clock(host, "0000:00:1f.6", 250_000);
    daemon(host, 640, "systemd-timesyn", CpuSet::first(LAPTOP_CPUS));
}

fn clock(host: &mut Snapshot, card: &str, error_us: i64) {
    files(
        host,
        SOURCE,
        &[("current_clocksource", "tsc"), ("available_clocksource", "tsc hpet acpi_pm ")],
    );
    host.set(
        "timekeeping",
        json!({"synchronised": true, "max_error_us": error_us, "estimated_error_us": error_us / 2}),
    );
    folder(host, "/sys/class/ptp", &["ptp0"]);
    files(host, "/sys/class/ptp/ptp0", &[("clock_name", card)]);
}

fn daemon(host: &mut Snapshot, pid: u32, name: &str, affinity: CpuSet) {
    let task = Task {
        pid,
        tid: pid,
        name: name.to_owned(),
        state: 'S',
        ticks: 30,
        affinity,
        ..Task::default()
    };
    for moment in &mut host.moments {
        if let Some(Value::Array(tasks)) = moment.get_mut("tasks") {
            tasks.push(json!(task));
        }
    }
}
