//! What a hypervisor offers its guest, and what it has taken.

use quietcore_measure::Reading;
use quietcore_sys::host::{Trouble, reading};

use crate::{CpuTimes, Facts};

/// The guest's side of virtualisation; empty on bare metal.
#[derive(Clone, Debug)]
pub struct Virt {
    /// KVM's features (CPUID 0x40000001, EAX); `None` under other hypervisors.
    pub kvm_features: Option<u32>,
    /// KVM's hints (CPUID 0x40000001, EDX).
    pub kvm_hints: Option<u32>,
    /// Memory balloons: name of the device, and whether free pages are handed back at once.
    pub balloons: Reading<Vec<(String, Option<bool>)>>,
    /// Time per CPU since boot.
    pub since_boot: Reading<Vec<CpuTimes>>,
}

/// `KVM_FEATURE_STEAL_TIME` of the kernel's Documentation/virt/kvm/x86/cpuid.rst.
const STEAL_TIME: u32 = 1 << 5;
/// `KVM_HINTS_REALTIME`: vCPUs are never preempted for long.
const REALTIME: u32 = 1;
/// `VIRTIO_BALLOON_F_REPORTING`, the number of the feature's bit.
const REPORTING: usize = 5;

impl Virt {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let is_kvm = facts.cpus().hypervisor.as_deref() == Some("KVM");
        let leaf = is_kvm.then(|| host.cpuid(0x4000_0001, 0).ok()).flatten();
        let stat = reading(host.read("/proc/stat"));
        Self {
            kvm_features: leaf.map(|leaf| leaf.eax),
            kvm_hints: leaf.map(|leaf| leaf.edx),
            balloons: balloons(facts),
            since_boot: stat.map(|text| CpuTimes::parse(&text)),
        }
    }

    /// Whether the hypervisor says how much time it takes: only then does a count of 0 prove that
    /// it took none. KVM announces it; Xen always tells; of others it is not known.
    pub fn tells_steal(&self, hypervisor: &str) -> bool {
        match hypervisor {
            "KVM" => self.kvm_features.is_some_and(|bits| bits & STEAL_TIME != 0),
            "Xen" => true,
            _ => false,
        }
    }

    /// Whether KVM promises that the guest's CPUs are not preempted for long.
    pub fn is_dedicated(&self) -> Option<bool> {
        self.kvm_hints.map(|bits| bits & REALTIME != 0)
    }
}

fn balloons(facts: &Facts) -> Reading<Vec<(String, Option<bool>)>> {
    let host = facts.host();
    let bound = match host.list("/sys/bus/virtio/drivers/virtio_balloon") {
        Ok(bound) => bound,
        Err(error) if error.trouble == Trouble::Missing => Vec::new(),
        Err(error) => return error.into_reading(),
    };
    let balloons = bound
        .into_iter()
        .filter(|name| name.starts_with("virtio"))
        .map(|name| {
            let bits = host.line(&format!("/sys/bus/virtio/devices/{name}/features"));
            let reporting = bits.ok().and_then(|b| Some(b.as_bytes().get(REPORTING)? == &b'1'));
            (name, reporting)
        })
        .collect();
    Reading::Measured(balloons)
}
