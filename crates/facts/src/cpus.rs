//! CPUs: which there are, what they share, and which the kernel has isolated.

use std::collections::BTreeMap;

use quietcore_measure::{CpuSet, Reading};
use quietcore_sys::host::{Trouble, reading};

use crate::Facts;

const CPU: &str = "/sys/devices/system/cpu";

/// The CPUs of a host.
#[derive(Clone, Debug)]
pub struct Cpus {
    /// CPUs that can ever be there.
    pub possible: CpuSet,
    /// CPUs that run; CPU 0 alone where that could not be read.
    pub online: CpuSet,
    /// Whether the online CPUs and the siblings of each could be read.
    pub known: bool,
    /// CPUs outside the scheduler's domains, as the kernel says (not as the boot line asks).
    pub isolated: Reading<CpuSet>,
    /// CPUs whose tick can stop while busy, as the kernel says.
    pub nohz_full: Reading<CpuSet>,
    /// Model name.
    pub model: String,
    /// `GenuineIntel`, `AuthenticAMD`, …
    pub vendor: String,
    /// Feature flags of the first CPU.
    pub flags: Vec<String>,
    /// Hypervisor's name, `none` on bare metal, or why it could not be told.
    pub hypervisor: Option<String>,
    /// Where each online CPU sits.
    pub topology: BTreeMap<usize, Place>,
    /// The slower kind of cores, on a part that has two.
    pub slower: Reading<Slower>,
}

/// CPUs of cores that are slower than the others: Intel's E cores, Arm's little ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slower {
    /// The online ones; empty where the kernel tells of one kind only.
    pub cpus: CpuSet,
    /// The file that says so.
    pub source: String,
}

/// Where a CPU sits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Socket.
    pub package: Option<i64>,
    /// NUMA node.
    pub node: Option<usize>,
    /// CPUs of the same core, this one among them.
    pub siblings: CpuSet,
    /// CPUs that share the last-level cache, this one among them; empty if unknown.
    pub llc: CpuSet,
}

impl Cpus {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let set = |name: &str| host.cpu_list(&format!("{CPU}/{name}"));
        let online = set("online");
        let siblings = |cpu: usize| {
            host.cpu_list(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")).is_ok()
        };
        let known = online.as_ref().is_ok_and(|online| online.iter().all(siblings));
        let online = online.unwrap_or_else(|_| CpuSet::first(1));
        let info = host.read("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            let value = lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
            value.unwrap_or_default().to_owned()
        };
        let flags: Vec<String> = field("flags").split(' ').map(str::to_owned).collect();
        let nodes = nodes(facts);
        Self {
            possible: set("possible").unwrap_or_else(|_| online.clone()),
            isolated: reading(set("isolated")),
            nohz_full: reading(set("nohz_full")),
            model: field("model name"),
            vendor: field("vendor_id"),
            hypervisor: hypervisor(facts, &flags),
            topology: online.iter().map(|cpu| (cpu, place(facts, cpu, &nodes))).collect(),
            slower: slower(facts, &online),
            online,
            known,
            flags,
        }
    }

    /// Whether the CPUs have a feature, by its name in /proc/cpuinfo.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|f| f == flag)
    }

    /// Whether any core runs more than one thread.
    pub fn has_smt(&self) -> bool {
        self.topology.values().any(|place| place.siblings.len() > 1)
    }

    /// Whether a hypervisor runs this host.
    pub fn is_guest(&self) -> bool {
        self.hypervisor.as_deref().is_some_and(|name| name != "none")
    }

    /// The nodes that hold these CPUs.
    pub fn nodes_of(&self, cpus: &CpuSet) -> Vec<usize> {
        let mut nodes: Vec<usize> =
            cpus.iter().filter_map(|cpu| self.topology.get(&cpu)?.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

fn nodes(facts: &Facts) -> BTreeMap<usize, CpuSet> {
    let host = facts.host();
    let names = host.list("/sys/devices/system/node").unwrap_or_default();
    let numbers = names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok());
    numbers
        .filter_map(|node: usize| {
            let path = format!("/sys/devices/system/node/node{node}/cpulist");
            Some((node, host.cpu_list(&path).ok()?))
        })
        .collect()
}

fn place(facts: &Facts, cpu: usize, nodes: &BTreeMap<usize, CpuSet>) -> Place {
    let host = facts.host();
    let list = |path: String| host.cpu_list(&path).unwrap_or_default();
    let topology = format!("{CPU}/cpu{cpu}/topology");
    let siblings = match list(format!("{topology}/thread_siblings_list")) {
        set if set.contains(cpu) => set,
        _ => CpuSet::from_iter([cpu]),
    };
    Place {
        package: host.number(&format!("{topology}/physical_package_id")).ok(),
        node: nodes.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(node, _)| *node),
        siblings,
        llc: list(format!("{CPU}/cpu{cpu}/cache/index3/shared_cpu_list")),
    }
}

/// Intel's hybrid parts have a counter device per kind of core; Arm's tell each CPU's capacity.
fn slower(facts: &Facts, online: &CpuSet) -> Reading<Slower> {
    let host = facts.host();
    let source = "/sys/devices/cpu_core/cpus";
    match host.cpu_list(source) {
        Ok(fast) => {
            // None of the fast kind online: then the others are not slower than any.
            let cpus = if fast.intersects(online) { online.minus(&fast) } else { CpuSet::new() };
            return Reading::Measured(Slower { cpus, source: source.to_owned() });
        }
        Err(error) if error.trouble == Trouble::Missing => {}
        Err(error) => return error.into_reading(),
    }
    let file = |cpu: usize| format!("{CPU}/cpu{cpu}/cpu_capacity");
    let mut capacities = Vec::new();
    for cpu in online.iter() {
        match host.number(&file(cpu)) {
            Ok(capacity) => capacities.push((cpu, capacity)),
            // Where the first has none, no other has.
            Err(error) if error.trouble == Trouble::Missing && capacities.is_empty() => break,
            Err(error) => return error.into_reading(),
        }
    }
    let most = capacities.iter().map(|(_, capacity)| *capacity).max().unwrap_or_default();
    // Differences below 5 % are none to the scheduler either.
    let slow = |capacity: i64| capacity.saturating_mul(20) < most.saturating_mul(19);
    let cpus = capacities.iter().filter(|(_, capacity)| slow(*capacity)).map(|(cpu, _)| *cpu);
    Reading::Measured(Slower { cpus: cpus.collect(), source: format!("{CPU}/cpu*/cpu_capacity") })
}

/// The flag says whether there is one, CPUID leaf 0x40000000 which.
fn hypervisor(facts: &Facts, flags: &[String]) -> Option<String> {
    if flags.iter().all(String::is_empty) {
        return None;
    }
    if !flags.iter().any(|f| f == "hypervisor") {
        return Some("none".to_owned());
    }
    let Ok(leaf) = facts.host().cpuid(0x4000_0000, 0) else { return Some("unknown".to_owned()) };
    let bytes: Vec<u8> =
        [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
    let name: String =
        bytes.iter().map(|&b| char::from(b)).filter(char::is_ascii_graphic).collect();
    Some(match name.as_str() {
        "KVMKVMKVM" => "KVM".to_owned(),
        "MicrosoftHv" => "Hyper-V".to_owned(),
        "VMwareVMware" => "VMware".to_owned(),
        "XenVMMXenVMM" => "Xen".to_owned(),
        "TCGTCGTCGTCG" => "QEMU (emulation)".to_owned(),
        "" => "unknown".to_owned(),
        _ => name,
    })
}

#[cfg(test)]
mod tests {
    use quietcore_sys::Host;
    use quietcore_sys::host::Snapshot;
    use serde_json::{Value, json};

    use super::*;

    const FAST: &str = "read /sys/devices/cpu_core/cpus";

    /// 4 CPUs; what the kernel tells of the fast ones, and the capacity of each CPU.
    fn slow(fast: Value, capacities: [Value; 4]) -> Reading<String> {
        let mut host = Snapshot::new("t");
        host.set(&format!("read {CPU}/online"), json!("0-3\n"));
        host.set(FAST, fast);
        for (cpu, capacity) in capacities.into_iter().enumerate() {
            host.set(&format!("read {CPU}/cpu{cpu}/cpu_capacity"), capacity);
        }
        Cpus::read(&Facts::of(Host::recorded(host))).slower.map(|slower| slower.cpus.to_string())
    }

    #[test]
    fn slower_cores_are_told_by_the_kernel_or_not_known() {
        let none = || [Value::Null, Value::Null, Value::Null, Value::Null];
        let capacity = |all: [u32; 4]| all.map(|one| json!(format!("{one}\n")));
        let measured = |list: &str| Reading::Measured(list.to_owned());
        assert_eq!(slow(Value::Null, none()), measured(""));
        assert_eq!(slow(json!("0-1\n"), none()), measured("2-3"));
        // Counters for CPUs that are all offline tell nothing of the others.
        assert_eq!(slow(json!("4-7\n"), none()), measured(""));
        assert_eq!(slow(Value::Null, capacity([446, 446, 1024, 1024])), measured("0-1"));
        // Below the 5 % that the scheduler takes for equal.
        assert_eq!(slow(Value::Null, capacity([1024, 1000, 980, 1024])), measured(""));
        let denied = || json!({"error": "denied"});
        assert!(matches!(slow(denied(), none()), Reading::Failed(_)));
        assert!(matches!(slow(json!("x"), none()), Reading::Failed(_)));
        let mut some = capacity([1024; 4]);
        some[2] = denied();
        assert!(matches!(slow(Value::Null, some), Reading::Failed(_)));
    }
}
