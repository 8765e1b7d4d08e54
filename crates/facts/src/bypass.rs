//! Ways around the kernel's network stack that are present on a host.

use crate::Facts;

const DRIVERS: &str = "/sys/bus/pci/drivers";
const DEVICES: &str = "/sys/bus/pci/devices";
/// Drivers that hand a PCI device to a program, as DPDK wants it.
const USERSPACE: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];
/// Kernel modules of stacks that bypass it.
const MODULES: [&str; 4] = ["onload", "exasock", "netmap", "pf_ring"];
/// The PCI class of network controllers.
const NETWORK: &str = "0x02";

/// Ways around the kernel's network stack.
#[derive(Clone, Debug, Default)]
pub struct Bypass {
    /// Network devices handed to programs: driver and PCI address.
    pub devices: Vec<(String, String)>,
    /// Network devices without any driver, looked for only where one of those drivers is loaded.
    pub orphans: Vec<String>,
    /// Sockets of the family AF_XDP; `None` where the kernel does not count them.
    pub xdp_sockets: Option<u64>,
    /// Modules of bypass stacks that are loaded.
    pub modules: Vec<String>,
    /// RDMA devices.
    pub rdma: Vec<String>,
}

impl Bypass {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let class = |address: &str| host.line(&format!("{DEVICES}/{address}/class"));
        let is_network =
            |address: &str| class(address).is_ok_and(|class| class.starts_with(NETWORK));
        let mut bypass = Self {
            xdp_sockets: sockets(&host.read("/proc/net/protocols").unwrap_or_default(), "XDP"),
            rdma: host.list("/sys/class/infiniband").unwrap_or_default(),
            ..Self::default()
        };
        let modules = host.list("/sys/module").unwrap_or_default();
        bypass.modules = modules.into_iter().filter(|m| MODULES.contains(&m.as_str())).collect();
        let mut loaded = false;
        for driver in USERSPACE {
            let Ok(entries) = host.list(&format!("{DRIVERS}/{driver}")) else { continue };
            loaded = true;
            let bound = entries.iter().filter(|entry| is_address(entry) && is_network(entry));
            bypass.devices.extend(bound.map(|address| (driver.to_owned(), address.clone())));
        }
        if loaded {
            let table = host.read("/proc/bus/pci/devices").unwrap_or_default();
            bypass.orphans = driverless(&table).into_iter().filter(|a| is_network(a)).collect();
        }
        bypass
    }
}

/// `0000:3b:00.0`
fn is_address(name: &str) -> bool {
    name.split(':').count() == 3 && name.contains('.')
}

/// The count in the third column of `/proc/net/protocols`.
fn sockets(table: &str, protocol: &str) -> Option<u64> {
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.first() == Some(&protocol))?;
    row.get(2)?.parse().ok()
}

/// Addresses of the devices of `/proc/bus/pci/devices` that no driver has: bus, slot and function
/// in one hexadecimal word, and 17 columns before the driver's name. Domains other than 0 are not
/// told by this table.
fn driverless(table: &str) -> Vec<String> {
    let address = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        if columns.len() != 17 {
            return None;
        }
        let word = u32::from_str_radix(columns.first()?, 16).ok()?;
        let (bus, slot, function) = (word >> 8 & 0xff, word >> 3 & 0x1f, word & 7);
        Some(format!("0000:{bus:02x}:{slot:02x}.{function}"))
    };
    table.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_a_protocol_are_counted() {
        let table = "protocol  size sockets  memory\nXDP       1024      2      -1   NI\nUDP 1 x\n";
        assert_eq!(sockets(table, "XDP"), Some(2));
        assert_eq!(sockets(table, "UDP"), None);
        assert_eq!(sockets("", "XDP"), None);
    }

    #[test]
    fn a_device_without_a_driver_is_told_by_its_missing_last_column() {
        let zeros = "\t0".repeat(15);
        let table = format!("3b01\t80861592{zeros}\n0018\t1af41041{zeros}\tvirtio-pci\nxx\n");
        assert_eq!(driverless(&table), ["0000:3b:00.1"]);
    }
}
