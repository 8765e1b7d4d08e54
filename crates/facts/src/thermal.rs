//! Heat: temperatures, their limits, and how often it slowed the CPU down.

use std::collections::BTreeMap;

use quietcore_measure::{CpuSet, Reading};
use quietcore_sys::Host;
use quietcore_sys::host::reading;

use crate::Facts;

const HWMON: &str = "/sys/class/hwmon";

/// The drivers of sensors inside CPUs.
const CHIPS: [&str; 4] = ["coretemp", "k10temp", "zenpower", "k8temp"];

/// The heat of a host's CPUs.
#[derive(Clone, Debug)]
pub struct Thermal {
    /// Sensors inside the CPUs.
    pub sensors: Vec<Sensor>,
    /// How often each CPU was slowed down since boot, where that is counted.
    pub throttles: BTreeMap<usize, Throttles>,
}

/// A sensor inside a CPU. Its temperature is not part of the fact for single cores: reading it
/// interrupts the core.
#[derive(Clone, Debug)]
pub struct Sensor {
    /// As `coretemp Package id 0`.
    pub label: String,
    /// The socket, where the sensors say so.
    pub package: Option<i64>,
    /// The core it belongs to; `None` for a whole package.
    pub core: Option<i64>,
    /// The file that holds millidegrees.
    pub input: String,
    /// Temperature of a package in °C.
    pub celsius: Reading<f64>,
    /// The temperature in °C at which the hardware slows down, where the driver knows it.
    pub critical: Option<f64>,
}

/// How often a CPU was slowed down for its heat since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttles {
    /// Times its core was.
    pub core: u64,
    /// Times its package was.
    pub package: u64,
    /// Milliseconds its core was, where that is counted.
    pub core_ms: u64,
    /// Milliseconds its package was, where that is counted.
    pub package_ms: u64,
}

impl Thermal {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let chips = host.list(HWMON).unwrap_or_default();
        let online = facts.cpus().online.iter();
        Self {
            sensors: chips.iter().flat_map(|chip| sensors(host, chip)).collect(),
            throttles: online.filter_map(|cpu| Some((cpu, throttled(host, cpu)?))).collect(),
        }
    }

    /// The sensor closest to a CPU: its core's, else its package's, else the only one there is.
    pub fn sensor_of(&self, package: Option<i64>, core: Option<i64>) -> Option<&Sensor> {
        let here = |sensor: &&Sensor| sensor.package.is_none() || sensor.package == package;
        let find = |core| self.sensors.iter().filter(here).find(|sensor| sensor.core == core);
        core.and_then(|core| find(Some(core))).or_else(|| find(None))
    }
}

impl Sensor {
    /// Asks it now, in °C.
    pub fn ask(&self, host: &Host) -> Reading<f64> {
        celsius(host, &self.input)
    }
}

fn sensors(host: &Host, chip: &str) -> Vec<Sensor> {
    let folder = format!("{HWMON}/{chip}");
    let name = host.line(&format!("{folder}/name")).unwrap_or_default();
    if !CHIPS.contains(&name.as_str()) {
        return Vec::new();
    }
    let files = host.list(&folder).unwrap_or_default();
    let numbers = files.iter().filter_map(|file| file.strip_prefix("temp")?.strip_suffix("_input"));
    let mut sensors: Vec<Sensor> = numbers
        .map(|number| {
            let file = |suffix: &str| format!("{folder}/temp{number}_{suffix}");
            let label = host.line(&file("label")).unwrap_or_default();
            let core = label.strip_prefix("Core ").and_then(|core| core.parse().ok());
            Sensor {
                package: label.strip_prefix("Package id ").and_then(|id| id.parse().ok()),
                core,
                celsius: match core {
                    None => celsius(host, &file("input")),
                    Some(_) => Reading::Failed("a core's sensor is asked only by name".to_owned()),
                },
                critical: celsius(host, &file("crit")).value().copied().filter(|c| *c > 0.0),
                input: file("input"),
                label: format!("{name} {label}").trim().to_owned(),
            }
        })
        .collect();
    // The cores of a chip belong to the package that the same chip names.
    let package = sensors.iter().find_map(|sensor| sensor.package);
    for sensor in &mut sensors {
        sensor.package = sensor.package.or(package);
    }
    sensors
}

fn celsius(host: &Host, file: &str) -> Reading<f64> {
    reading(host.number(file)).map(|millidegrees| millidegrees as f64 / 1000.0)
}

/// How often these CPUs were slowed down in all, core or package, where that is counted.
pub fn throttles(host: &Host, cpus: &CpuSet) -> Vec<(usize, u64)> {
    let events = |cpu: usize| {
        let count = throttled(host, cpu)?;
        Some((cpu, count.core.saturating_add(count.package)))
    };
    cpus.iter().filter_map(events).collect()
}

fn throttled(host: &Host, cpu: usize) -> Option<Throttles> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    let count = |name: &str| {
        let number = host.number(&format!("{folder}/{name}")).ok()?;
        u64::try_from(number).ok()
    };
    Some(Throttles {
        core: count("core_throttle_count")?,
        package: count("package_throttle_count").unwrap_or_default(),
        core_ms: count("core_throttle_total_time_ms").unwrap_or_default(),
        package_ms: count("package_throttle_total_time_ms").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_sys::host::Snapshot;
    use serde_json::{Value, json};

    fn thermal(entries: Value) -> Thermal {
        let text = json!({"quietcore_snapshot": 1, "name": "t", "moments": [entries]}).to_string();
        Thermal::read(&Facts::of(Host::recorded(Snapshot::parse(&text).unwrap())))
    }

    #[test]
    fn a_cpu_is_as_hot_as_its_core_else_as_its_package() {
        let chip = "read /sys/class/hwmon/hwmon1";
        let found = thermal(json!({
            "list /sys/class/hwmon": ["hwmon0", "hwmon1"],
            "read /sys/class/hwmon/hwmon0/name": "nvme\n",
            (format!("{chip}/name")): "coretemp\n",
            "list /sys/class/hwmon/hwmon1": ["name", "temp1_input", "temp1_label", "temp2_input"],
            (format!("{chip}/temp1_label")): "Package id 1\n",
            (format!("{chip}/temp1_input")): "61000\n",
            (format!("{chip}/temp1_crit")): "100000\n",
            (format!("{chip}/temp2_label")): "Core 4\n",
        }));
        let core = found.sensor_of(Some(1), Some(4)).unwrap();
        assert_eq!((core.package, core.core), (Some(1), Some(4)));
        let package = found.sensor_of(Some(1), Some(5)).unwrap();
        assert_eq!((package.celsius.value(), package.critical), (Some(&61.0), Some(100.0)));
        assert!(found.sensor_of(Some(0), Some(4)).is_none());
    }

    #[test]
    fn garbage_gives_no_sensor_and_no_count() {
        let found = thermal(json!({
            "list /sys/class/hwmon": ["hwmon0"],
            "read /sys/class/hwmon/hwmon0/name": "coretemp\n",
            "list /sys/class/hwmon/hwmon0": ["temp_input", "temp", "x"],
            "read /sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "-1\n",
        }));
        assert!(found.throttles.is_empty());
        assert!(found.sensors.iter().all(|sensor| sensor.celsius.value().is_none()));
    }
}
