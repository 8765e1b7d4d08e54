//! Network: on the server a card with four queues and a VLAN upon it, settings made for latency;
//! on the laptop a cable, a radio, and everything as the drivers have it.

use quietcore_measure::CpuSet;
use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use super::{LAPTOP_CPUS, SERVER_CPUS, SERVER_ISOLATED, file, files, folder, later};

const NET: &str = "/sys/class/net";

pub fn server(host: &mut Snapshot) {
    folder(host, NET, &["eth0", "eth0.7", "lo"]);
    let vlan = format!("{NET}/eth0.7");
    folder(host, &vlan, &["flags", "lower_eth0", "mtu", "operstate", "queues", "statistics"]);
    files(host, &vlan, &[("mtu", "1500")]);
    folder(host, &format!("{NET}/lo"), &["flags", "mtu", "operstate", "queues", "statistics"]);
    card(host, "eth0", "0000:3b:00.0", "0", &[]);
    host.set("default routes", json!(["eth0.7"]));
    host.set(
        "ethtool eth0",
        json!({
            "driver": "ice",
            "coalesce": {"rx_usecs": 0, "rx_frames": 0, "tx_usecs": 0, "adaptive_rx": false},
            "rings": {"rx": 512, "rx_max": 4096, "tx": 512, "tx_max": 4096},
            "lro": false, "gro": true, "rx_pause": false, "eee": false, "eee_active": false, "phc": 0,
        }),
    );
    let isolated = CpuSet::parse_list(SERVER_ISOLATED).unwrap();
    let keep = CpuSet::first(SERVER_CPUS).minus(&isolated).to_mask(SERVER_CPUS);
    let own = |list: &str| CpuSet::parse_list(list).unwrap().to_mask(SERVER_CPUS);
    let zero = CpuSet::new().to_mask(SERVER_CPUS);
    let send = [keep, own("2-10"), own("11-19"), own("42-59")];
    queues(host, "eth0", &zero, &send);
    folder(host, &format!("{NET}/eth0/device/msi_irqs"), &["130", "131", "132", "133"]);
    sysctls(host, 50, 0);
    file(host, "/proc/net/ptype", "Type Device      Function\n0800          ip_rcv\n");
    file(host, "/proc/net/softnet_stat", softnet(SERVER_CPUS, 0));
    later(host, "read /proc/net/softnet_stat", Value::String(softnet(SERVER_CPUS, 900)));
    bypass(host);
    datagrams(host);
    link(host, "eth0", Some(("8", "16.0 GT/s PCIe")));
}

pub fn laptop(host: &mut Snapshot) {
    folder(host, NET, &["enp0s31f6", "lo", "wlp2s0"]);
    folder(host, &format!("{NET}/lo"), &["flags", "mtu", "operstate", "queues", "statistics"]);
    card(host, "enp0s31f6", "0000:00:1f.6", "-1", &[]);
    card(host, "wlp2s0", "0000:02:00.0", "-1", &["phy80211", "wireless"]);
    host.set("default routes", json!(["enp0s31f6", "wlp2s0"]));
    host.set(
        "ethtool enp0s31f6",
        json!({
            "driver": "e1000e",
            "coalesce": {"rx_usecs": 3, "rx_frames": 0, "tx_usecs": 0, "adaptive_rx": false},
            "rings": {"rx": 256, "rx_max": 4096, "tx": 256, "tx_max": 4096},
            "lro": false, "gro": true, "rx_pause": true, "eee": true, "eee_active": true, "phc": 0,
        }),
    );
    host.set("ethtool wlp2s0", json!({"driver": "iwlwifi", "lro": false, "gro": true}));
    for (name, irq) in [("enp0s31f6", "131"), ("wlp2s0", "130")] {
        queues(host, name, "00", &["00".to_owned()]);
        folder(host, &format!("{NET}/{name}/device/msi_irqs"), &[irq]);
    }
    sysctls(host, 0, 1);
    file(host, "/proc/net/ptype", "Type Device      Function\n0800          ip_rcv\n");
    file(host, "/proc/net/softnet_stat", softnet(LAPTOP_CPUS, 0));
    bypass(host);
    datagrams(host);
    // The chipset's own card has no link; the radio is not judged.
    link(host, "enp0s31f6", None);
}

fn card(host: &mut Snapshot, name: &str, device: &str, node: &str, more: &[&str]) {
    let path = format!("{NET}/{name}");
    let mut entries = vec!["device", "flags", "gro_flush_timeout", "mtu", "operstate", "queues"];
    entries.extend(["statistics"]);
    entries.extend(more);
    folder(host, &path, &entries);
    host.set(&format!("link {path}/device"), json!(format!("../../../{device}")));
    files(host, &path, &[("operstate", "up"), ("mtu", "1500"), ("gro_flush_timeout", "0")]);
    files(host, &format!("{path}/device"), &[("numa_node", node), ("power/control", "on")]);
    let counts = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors", "rx_dropped"];
    for count in counts {
        file(host, &format!("{path}/statistics/{count}"), "0\n");
    }
    file(host, &format!("{path}/statistics/rx_packets"), "48000000\n");
}

fn queues(host: &mut Snapshot, name: &str, receive: &str, send: &[String]) {
    let path = format!("{NET}/{name}/queues");
    let names: Vec<String> = ["rx", "tx"]
        .iter()
        .flat_map(|kind| (0..send.len()).map(move |number| format!("{kind}-{number}")))
        .collect();
    folder(host, &path, &names.iter().map(String::as_str).collect::<Vec<_>>());
    for (number, mask) in send.iter().enumerate() {
        files(
            host,
            &format!("{path}/rx-{number}"),
            &[("rps_cpus", receive), ("rps_flow_cnt", "0")],
        );
        files(host, &format!("{path}/tx-{number}"), &[("xps_cpus", mask)]);
    }
}

fn sysctls(host: &mut Snapshot, busy: u32, slow_start: u32) {
    let (busy, slow_start) = (busy.to_string(), slow_start.to_string());
    files(
        host,
        "/proc/sys/net",
        &[
            ("core/busy_poll", &busy),
            ("core/busy_read", &busy),
            ("core/rps_sock_flow_entries", "0"),
            ("ipv4/tcp_slow_start_after_idle", &slow_start),
        ],
    );
    host.set("read /proc/sys/net/netfilter/nf_conntrack_count", Value::Null);
    host.set("list /etc/sysconfig/network-scripts", Value::Null);
}

/// The format of 6.1: 15 hexadecimal columns, the CPU in the 13th.
fn softnet(cpus: usize, more: u32) -> String {
    let rest = "00000000 ".repeat(9);
    let row = |cpu: usize| {
        let packets = 5000 + if cpu == 0 { more } else { 0 };
        format!("{packets:08x} 00000000 00000000 {rest}{cpu:08x} 00000000 00000000\n")
    };
    (0..cpus).map(row).collect()
}

fn bypass(host: &mut Snapshot) {
    file(
        host,
        "/proc/net/protocols",
        "protocol  size sockets  memory press maxhdr  slab module\nXDP       1024      0      -1   NI       0   no   kernel\n",
    );
    host.set("list /sys/class/infiniband", Value::Null);
    folder(host, "/sys/module", &["kvm", "nvme", "virtio_net"]);
    folder(host, "/sys/bus/pci/drivers", &["nvme", "pcieport"]);
}

fn datagrams(host: &mut Snapshot) {
    file(
        host,
        "/proc/net/snmp",
        "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 90210 3 0 511 0 0\n",
    );
}

/// Width and rate of a card's PCIe link, agreed on and possible.
fn link(host: &mut Snapshot, card: &str, agreed: Option<(&str, &str)>) {
    let folder = format!("{NET}/{card}/device");
    for which in ["current", "max"] {
        for (what, value) in [("width", agreed.map(|a| a.0)), ("speed", agreed.map(|a| a.1))] {
            let key = format!("read {folder}/{which}_link_{what}");
            host.set(&key, value.map_or(Value::Null, |text| json!(format!("{text}\n"))));
        }
    }
}
