//! The machine's own housekeeping: memory errors, power limits.

use quietcore_measure::Reading;
use quietcore_sys::Host;
use quietcore_sys::host::reading;

use crate::Facts;

const EDAC: &str = "/sys/devices/system/edac/mc";
const POWERCAP: &str = "/sys/class/powercap";

/// What the machine counts and limits by itself.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Memory controllers whose errors are counted.
    pub controllers: Vec<Controller>,
    /// Power limits of the packages.
    pub power: Vec<PowerLimit>,
}

/// A memory controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// `mc0`.
    pub name: String,
    /// Errors that were corrected since the driver was loaded.
    pub corrected: Reading<i64>,
    /// Errors that were not.
    pub uncorrected: Reading<i64>,
}

/// A limit on the power of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerLimit {
    /// `package-0`.
    pub package: String,
    /// `long_term`, `short_term`, `peak_power`.
    pub term: String,
    /// The file that holds the limit.
    pub file: String,
    /// The limit in microwatts; `None` where it could not be read.
    pub limit_uw: Option<i64>,
    /// What the package is made for in microwatts (TDP), where the hardware says so.
    pub rated_uw: Option<i64>,
}

impl Hardware {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        Self { controllers: controllers(host), power: power(host) }
    }
}

fn controllers(host: &Host) -> Vec<Controller> {
    let names = host.list(EDAC).unwrap_or_default();
    let numbered = names
        .iter()
        .filter(|name| name.strip_prefix("mc").is_some_and(|number| number.parse::<u32>().is_ok()));
    let count = |name: &str, file: &str| reading(host.number(&format!("{EDAC}/{name}/{file}")));
    numbered
        .map(|name| Controller {
            name: name.clone(),
            corrected: count(name, "ce_count"),
            uncorrected: count(name, "ue_count"),
        })
        .collect()
}

/// Packages are the top zones of RAPL, `intel-rapl:0`; their parts have one more colon, and
/// `intel-rapl-mmio:0` is the same package by another way.
fn power(host: &Host) -> Vec<PowerLimit> {
    let names = host.list(POWERCAP).unwrap_or_default();
    let zones = names
        .iter()
        .filter(|name| name.strip_prefix("intel-rapl").is_some() && name.matches(':').count() == 1);
    zones.flat_map(|zone| limits(host, &format!("{POWERCAP}/{zone}"))).collect()
}

fn limits(host: &Host, folder: &str) -> Vec<PowerLimit> {
    let package = host.line(&format!("{folder}/name")).unwrap_or_default();
    if !package.starts_with("package") {
        return Vec::new();
    }
    let limit = |index: usize| {
        let file = |name: &str| format!("{folder}/constraint_{index}_{name}");
        Some(PowerLimit {
            package: package.clone(),
            term: host.line(&file("name")).ok()?,
            limit_uw: host.number(&file("power_limit_uw")).ok(),
            rated_uw: host.number(&file("max_power_uw")).ok().filter(|uw| *uw > 0),
            file: file("power_limit_uw"),
        })
    };
    // There are at most three: long term, short term, peak.
    (0..3).map_while(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_sys::host::Snapshot;
    use serde_json::{Value, json};

    fn hardware(entries: Value) -> Hardware {
        let text = json!({"quietcore_snapshot": 1, "name": "t", "moments": [entries]}).to_string();
        Hardware::read(&Facts::of(Host::recorded(Snapshot::parse(&text).unwrap())))
    }

    #[test]
    fn only_whole_packages_have_power_limits() {
        let zone = "read /sys/class/powercap/intel-rapl:0";
        let found = hardware(json!({
            "list /sys/class/powercap": ["intel-rapl", "intel-rapl:0", "intel-rapl:0:0", "dtpm"],
            (format!("{zone}/name")): "package-0\n",
            (format!("{zone}/constraint_0_name")): "long_term\n",
            (format!("{zone}/constraint_0_power_limit_uw")): "65000000\n",
            (format!("{zone}/constraint_0_max_power_uw")): "0\n",
        }));
        let [limit] = &found.power[..] else { panic!("one limit: {found:?}") };
        assert_eq!((limit.limit_uw, limit.rated_uw), (Some(65_000_000), None));
    }

    #[test]
    fn controllers_are_numbered_and_keep_why_a_count_is_missing() {
        let found = hardware(json!({
            "list /sys/devices/system/edac/mc": ["mc0", "power", "mcx", "uevent"],
            "read /sys/devices/system/edac/mc/mc0/ce_count": "7\n",
            "read /sys/devices/system/edac/mc/mc0/ue_count": "many\n",
        }));
        let [controller] = &found.controllers[..] else { panic!("one controller: {found:?}") };
        assert_eq!(controller.corrected.value(), Some(&7));
        assert!(matches!(controller.uncorrected, Reading::Failed(_)));
    }
}
