//! Frequency: who sets it, within which limits, and what the CPU is rated at.

use quietcore_measure::{CpuSet, Reading};
use quietcore_sys::Host;
use quietcore_sys::host::{HostError, Trouble, reading};

use crate::Facts;

const CPU: &str = "/sys/devices/system/cpu";

/// The frequency settings of a host. The frequencies of the moment are not among them: asking
/// some kernels for one interrupts the CPU asked about.
#[derive(Clone, Debug)]
pub struct Frequency {
    /// One per group of CPUs that share a clock; empty where there is no driver.
    pub policies: Vec<Policy>,
    /// Why some could not be read, though they are there.
    pub unread: Option<String>,
    /// Whether the CPU may go beyond its rated frequency.
    pub turbo: Reading<bool>,
    /// The file that says so, where there is one.
    pub turbo_file: &'static str,
    /// The rated frequency by CPUID, for where no driver tells.
    pub cpuid_base: Reading<Base>,
}

/// The settings of CPUs that share a clock.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `policy0`.
    pub name: String,
    /// The CPUs.
    pub cpus: CpuSet,
    /// `intel_pstate`, `intel_cpufreq`, `acpi-cpufreq`, `amd-pstate-epp`, …
    pub driver: String,
    /// `performance`, `powersave`, `schedutil`, …
    pub governor: String,
    /// The hint to the hardware's own governor: `performance` … `power`, or a number.
    pub preference: Reading<String>,
    /// The least that may be set, in kHz.
    pub min_khz: Reading<i64>,
    /// The most that may be set, in kHz.
    pub max_khz: Reading<i64>,
    /// The least that the hardware can, in kHz.
    pub hardware_min_khz: Reading<i64>,
    /// The most that the hardware can, in kHz.
    pub hardware_max_khz: Reading<i64>,
    /// The firmware's cap in kHz, where the driver has one.
    pub bios_limit_khz: Reading<i64>,
    /// The rated frequency.
    pub base: Reading<Base>,
}

/// A rated frequency, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// In kHz.
    pub khz: i64,
    /// `base_frequency`, `CPPC nominal_freq`, `CPUID 0x16`.
    pub source: &'static str,
}

impl Frequency {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let cpuid_base = cpuid_base(facts);
        let mut unread = None;
        let names = host.list(&format!("{CPU}/cpufreq")).unwrap_or_else(|error| {
            note(&mut unread, &error);
            Vec::new()
        });
        let mut numbers: Vec<u32> =
            names.iter().filter_map(|name| name.strip_prefix("policy")?.parse().ok()).collect();
        numbers.sort_unstable();
        let mut policies = Vec::new();
        for number in numbers {
            match policy(host, number, &cpuid_base) {
                Ok(policy) => policies.extend(policy),
                Err(error) => note(&mut unread, &error),
            }
        }
        let (turbo, turbo_file) = turbo(host);
        Self { policies, unread, turbo, turbo_file, cpuid_base }
    }

    /// What the lack of a policy means: `why` where there is none, or that it is not known.
    pub fn without(&self, why: &str) -> Reading<()> {
        match &self.unread {
            Some(unread) => Reading::Failed(unread.clone()),
            None => Reading::Unsupported(why.to_owned()),
        }
    }

    /// The settings of a CPU.
    pub fn of(&self, cpu: usize) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.cpus.contains(cpu))
    }

    /// The settings of any of these CPUs.
    pub fn of_any<'a>(&'a self, cpus: &'a CpuSet) -> impl Iterator<Item = &'a Policy> + 'a {
        self.policies.iter().filter(move |policy| policy.cpus.intersects(cpus))
    }

    /// The rated frequency of a CPU.
    pub fn base(&self, cpu: usize) -> &Reading<Base> {
        self.of(cpu).map_or(&self.cpuid_base, |policy| &policy.base)
    }
}

/// Keeps why something could not be read; what is not there was not to be read.
fn note(unread: &mut Option<String>, error: &HostError) {
    if error.trouble != Trouble::Missing {
        unread.get_or_insert_with(|| error.to_string());
    }
}

/// `None` for a policy whose CPUs are all offline.
fn policy(
    host: &Host,
    number: u32,
    cpuid_base: &Reading<Base>,
) -> Result<Option<Policy>, HostError> {
    let folder = format!("{CPU}/cpufreq/policy{number}");
    let line = |name: &str| host.line(&format!("{folder}/{name}"));
    let khz = |name: &str| reading(host.number(&format!("{folder}/{name}")));
    let cpus = host.line(&format!("{folder}/affected_cpus"))?;
    let cpus: CpuSet = cpus.split_whitespace().filter_map(|cpu| cpu.parse().ok()).collect();
    let Some(lowest) = cpus.lowest() else { return Ok(None) };
    Ok(Some(Policy {
        name: format!("policy{number}"),
        driver: line("scaling_driver").unwrap_or_default(),
        governor: line("scaling_governor").unwrap_or_default(),
        preference: reading(line("energy_performance_preference")),
        min_khz: khz("scaling_min_freq"),
        max_khz: khz("scaling_max_freq"),
        hardware_min_khz: khz("cpuinfo_min_freq"),
        hardware_max_khz: khz("cpuinfo_max_freq"),
        bios_limit_khz: khz("bios_limit"),
        base: base(host, &folder, lowest, cpuid_base),
        cpus,
    }))
}

/// The driver knows best; then the firmware's table; CPUID last, as it knows one figure only.
fn base(host: &Host, folder: &str, cpu: usize, cpuid_base: &Reading<Base>) -> Reading<Base> {
    let positive = |khz: &i64| *khz > 0;
    let driver = host.number(&format!("{folder}/base_frequency")).ok().filter(positive);
    if let Some(khz) = driver {
        return Reading::Measured(Base { khz, source: "base_frequency" });
    }
    let nominal = host.number(&format!("{CPU}/cpu{cpu}/acpi_cppc/nominal_freq")).ok();
    if let Some(khz) = nominal.and_then(|mhz| mhz.checked_mul(1000)).filter(positive) {
        return Reading::Measured(Base { khz, source: "CPPC nominal_freq" });
    }
    cpuid_base.clone()
}

/// Leaf 0x16 holds the base frequency in MHz in the low half of EAX; only Intel fills it in.
fn cpuid_base(facts: &Facts) -> Reading<Base> {
    let why = "no base_frequency, no CPPC nominal_freq, and CPUID leaf 0x16 is not there";
    if facts.cpus().vendor != "GenuineIntel" {
        return Reading::Unsupported(why.to_owned());
    }
    reading(facts.host().cpuid(0x16, 0)).and_then(|leaf| match i64::from(leaf.eax & 0xffff) {
        0 => Reading::Unsupported("CPUID leaf 0x16 names no base frequency".to_owned()),
        mhz => Reading::Measured(Base { khz: mhz * 1000, source: "CPUID 0x16" }),
    })
}

/// intel_pstate says "no turbo", every other driver "boost".
fn turbo(host: &Host) -> (Reading<bool>, &'static str) {
    const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";
    if let Ok(off) = host.number(NO_TURBO) {
        return (Reading::Measured(off == 0), NO_TURBO);
    }
    (reading(host.number(BOOST)).map(|on| on != 0), BOOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_sys::host::Snapshot;
    use serde_json::{Value, json};

    fn frequency(entries: Value) -> Frequency {
        let text = json!({"quietcore_snapshot": 1, "name": "t", "moments": [entries]}).to_string();
        let facts = Facts::of(Host::recorded(Snapshot::parse(&text).unwrap()));
        Frequency::read(&facts)
    }

    const POLICY: &str = "read /sys/devices/system/cpu/cpufreq/policy2";

    #[test]
    fn the_driver_s_base_counts_before_the_firmware_s_and_cpuid() {
        let intel = "vendor_id\t: GenuineIntel\n";
        let leaf = json!({"eax": 3400, "ebx": 4000, "ecx": 100, "edx": 0});
        let mut host = json!({
            "read /proc/cpuinfo": intel,
            "cpuid 0x16 0x0": leaf,
            "list /sys/devices/system/cpu/cpufreq": ["boost", "policy2", "ondemand", "policyx"],
            (format!("{POLICY}/affected_cpus")): "2 3\n",
        });
        let cpuid = Base { khz: 3_400_000, source: "CPUID 0x16" };
        assert_eq!(frequency(host.clone()).base(3).value(), Some(&cpuid));
        host["read /sys/devices/system/cpu/cpu2/acpi_cppc/nominal_freq"] = json!("2500\n");
        assert_eq!(frequency(host.clone()).base(3).value().unwrap().khz, 2_500_000);
        host[format!("{POLICY}/base_frequency")] = json!("2100000\n");
        assert_eq!(frequency(host).base(2).value().unwrap().source, "base_frequency");
    }

    #[test]
    fn a_host_without_a_driver_says_why_it_has_no_base() {
        let host = frequency(json!({"read /proc/cpuinfo": "vendor_id\t: AuthenticAMD\n"}));
        assert!(host.policies.is_empty());
        assert!(matches!(host.base(0), Reading::Unsupported(_)));
        assert!(host.turbo.value().is_none());
    }

    #[test]
    fn policies_that_may_not_be_read_are_not_taken_for_none() {
        let denied = json!({"error": "denied"});
        let listing = json!({"list /sys/devices/system/cpu/cpufreq": denied});
        assert!(matches!(frequency(listing).without("none"), Reading::Failed(_)));
        let mut file = json!({"list /sys/devices/system/cpu/cpufreq": ["policy2"]});
        file[format!("{POLICY}/affected_cpus")] = denied;
        assert!(matches!(frequency(file).without("none"), Reading::Failed(_)));
        let missing = json!({"list /sys/devices/system/cpu/cpufreq": null});
        assert!(matches!(frequency(missing).without("none"), Reading::Unsupported(_)));
    }

    #[test]
    fn garbage_gives_no_policy() {
        let listed = json!(["policy", "policy99999999999999", "policy2"]);
        let mut host = json!({"list /sys/devices/system/cpu/cpufreq": listed});
        host[format!("{POLICY}/affected_cpus")] = json!("x -1 \u{0}");
        assert!(frequency(host).policies.is_empty());
    }
}
