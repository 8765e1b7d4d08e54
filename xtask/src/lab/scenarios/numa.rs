//! A guest with a shape: two sockets, two threads a core, two memory nodes, a network card that
//! belongs to the second one.

use crate::lab::evidence::Evidence;
use crate::lab::scenario::{PARALLEL, RECORDING, Scenario, Step};
use crate::lab::tally::Tally;

/// What the audit must say of a host with siblings and two nodes.
const EXPECT: &[(&str, &str)] = &[
    ("numa.balancing", "warn"),
    ("net.coalescing", "warn"),
    ("net.rings", "pass"),
    ("smt.isolated-siblings", "not_applicable"),
    ("numa.latency-cpus-span", "not_applicable"),
];

/// What it must say of one CPU of each socket: their siblings 0 and 3 do everything else, and the
/// network card belongs to the second one.
const EXPECT_SPREAD: &[(&str, &str)] = &[
    ("numa.balancing", "fail"),
    ("numa.latency-cpus-span", "warn"),
    ("smt.isolated-siblings", "fail"),
    ("net.numa-node", "warn"),
    ("net.coalescing", "fail"),
    ("irq.nic-queues", "fail"),
    ("clock.phc", "warn"),
];

/// What it must say of the first socket as a whole.
const EXPECT_FAR: &[(&str, &str)] = &[
    ("numa.latency-cpus-span", "pass"),
    ("smt.isolated-siblings", "pass"),
    ("net.numa-node", "fail"),
];

/// What it must say of the second socket, to which the network card belongs.
const EXPECT_NEAR: &[(&str, &str)] = &[
    ("numa.latency-cpus-span", "pass"),
    ("smt.isolated-siblings", "pass"),
    ("net.numa-node", "pass"),
];

pub const SCENARIO: Scenario = Scenario {
    name: "numa",
    about: "two sockets with SMT, two memory nodes, an e1000e network card on the second node",
    kernel: None,
    // Else it depends on the host's load which clock the kernel ends up with.
    boot: "tsc=reliable",
    cpu: "max,vendor=GenuineIntel,family=6,model=94",
    smp: "4,sockets=2,cores=1,threads=2",
    accel: PARALLEL,
    qemu: &[
        "-object",
        "memory-backend-ram,id=near,size=512M",
        "-object",
        "memory-backend-ram,id=far,size=512M",
        "-numa",
        "node,nodeid=0,cpus=0-1,memdev=near",
        "-numa",
        "node,nodeid=1,cpus=2-3,memdev=far",
        "-numa",
        "dist,src=0,dst=1,val=21",
        // A second root bus is the only way to give a device a node on this machine.
        "-device",
        "pxb,id=far-bus,bus=pci.0,bus_nr=128,numa_node=1",
        "-netdev",
        "user,id=net,restrict=on",
        // Without its boot ROM, which is in a package that nothing else here needs.
        "-device",
        "e1000e,netdev=net,bus=far-bus,addr=1,romfile=",
    ],
    acpi: None,
    modules: &["e1000e"],
    look: "\
echo nodes=$(cat /sys/devices/system/node/online)
echo node1=$(cat /sys/devices/system/node/node1/cpulist)
echo distance=$(cat /sys/devices/system/node/node0/distance)
echo siblings=$(cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list)
echo packages=$(cat /sys/devices/system/cpu/cpu*/topology/physical_package_id)
echo driver=$(basename $(readlink /sys/class/net/eth0/device/driver))
echo nic_node=$(cat /sys/class/net/eth0/device/numa_node)
echo state=$(cat /sys/class/net/eth0/operstate)
",
    premises,
    audit: "",
    expect: EXPECT,
    recording: Some(RECORDING),
    steps: &[
        Step::new("spread", 60, "quietcore audit --cpus 1-2 --format json"),
        Step::new("far", 60, "quietcore audit --cpus 0-1 --format json"),
        Step::new("near", 60, "quietcore audit --cpus 2-3 --format json"),
    ],
    judge,
};

fn premises(e: &Evidence, tally: &mut Tally) {
    for (key, expected) in [
        ("nodes", "0-1"),
        ("node1", "2-3"),
        ("distance", "10 21"),
        ("siblings", "0-1"),
        ("packages", "0 0 1 1"),
        ("driver", "e1000e"),
        ("nic_node", "1"),
        ("state", "up"),
    ] {
        let value = e.value("look", key).unwrap_or_default();
        tally.premise(value == expected, &format!("{key} is {expected}"), || {
            format!("it is {value:?}")
        });
    }
}

fn judge(e: &Evidence, tally: &mut Tally) {
    for (step, expect) in [("spread", EXPECT_SPREAD), ("far", EXPECT_FAR), ("near", EXPECT_NEAR)] {
        tally.findings(step, &e.json(step).unwrap_or_default(), expect);
    }
}
