use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.bypass",
    cause: Cause::Network,
    about: "A kernel-bypass stack that is set up has a device to drive",
    why: "DPDK drives cards that are bound to vfio-pci (or a uio driver), onload and exasock come \
          with modules of their own, AF_XDP shows as sockets in /proc/net/protocols, verbs and \
          libraries upon them as RDMA devices. What is there is reported, so that the other \
          findings on this group can be read in its light: a bypassed card has no interrupts, no \
          coalescing and no RPS. A fault is a network device without any driver where such a \
          driver is loaded: it was taken from the kernel and given to nobody, and the program that \
          looks for it falls back to the kernel's stack or does not start. Devices outside PCI \
          domain 0 are not searched for that.",
    cost: Cost {
        us: 10.0,
        text: "5–20 µs per packet through the kernel's stack instead of 1–2",
        origin: "judgement: interrupt, softirq, wake-up and system call against a polled queue",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let bypass = facts.bypass();
    let mut found: Vec<(String, String)> = Vec::new();
    for (driver, address) in &bypass.devices {
        found.push((format!("/sys/bus/pci/drivers/{driver}"), address.clone()));
    }
    for module in &bypass.modules {
        found.push((format!("/sys/module/{module}"), "loaded".to_owned()));
    }
    if let Some(sockets @ 1..) = bypass.xdp_sockets {
        found.push(("/proc/net/protocols".to_owned(), format!("{sockets} AF_XDP sockets")));
    }
    let all = |verdict: Verdict| found.iter().fold(verdict, |v, (s, value)| v.evidence(s, value));
    if let Some(orphan) = bypass.orphans.first() {
        let names = bypass.orphans.join(", ");
        let verdict = Verdict::warn(format!("network device {names} has no driver"));
        let verdict = all(verdict.evidence("/proc/bus/pci/devices", names));
        return verdict.fix(format!("driverctl set-override {orphan} vfio-pci   # or dpdk-devbind.py --bind=vfio-pci {orphan}"));
    }
    if !found.is_empty() {
        return all(Verdict::pass("a kernel-bypass stack is in place"));
    }
    match bypass.rdma.is_empty() {
        true => Verdict::not_applicable("packets take the kernel's way: no bypass stack is set up"),
        false => Verdict::not_applicable(format!(
            "packets take the kernel's way; RDMA devices are there: {}",
            bypass.rdma.join(", ")
        )),
    }
}
