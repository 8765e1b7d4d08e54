//! In network namespaces with a pair of interfaces. `/sys` shows the namespace that it was mounted
//! in, so each test runs itself again in namespaces of its own.

use quietcore_sys::lease::Slot;

use crate::bench::{cores, inside, there_and_back};

const PAIR: &str = "mount -t sysfs sysfs /sys && \
                    ip link add qa numrxqueues 2 numtxqueues 2 type veth peer name qb";

fn is_of(slot: &Slot, interface: &str) -> bool {
    slot.path().is_some_and(|path| path.starts_with(&format!("/sys/class/net/{interface}/")))
}

#[test]
fn root_packets_that_are_handed_on_are_handed_to_housekeeping_cpus() {
    if !inside("network::root_packets_that_are_handed_on_are_handed_to_housekeeping_cpus", PAIR) {
        return;
    }
    let file = |queue: usize| format!("/sys/class/net/qa/queues/rx-{queue}/rps_cpus");
    let reads = |queue: usize| std::fs::read_to_string(file(queue)).unwrap().trim().to_owned();
    std::fs::write(file(0), "3\n").unwrap();
    there_and_back(
        "rps",
        "housekeeping",
        &cores("1", "0"),
        |item| is_of(&item.slot, "qa"),
        |made| {
            assert_eq!(made.len(), 1, "the queue without RPS stays without: {made:?}");
            assert_eq!((reads(0).as_str(), reads(1).as_str()), ("1", "0"));
        },
    );
    assert_eq!(reads(0), "3");
}

#[test]
fn root_an_interface_carries_larger_packets_and_smaller_ones_again() {
    if !inside("network::root_an_interface_carries_larger_packets_and_smaller_ones_again", PAIR) {
        return;
    }
    let reads = || std::fs::read_to_string("/sys/class/net/qb/mtu").unwrap().trim().to_owned();
    there_and_back("mtu", "qb=9000", &cores("", "0-1"), |_| true, |_| assert_eq!(reads(), "9000"));
    assert_eq!(reads(), "1500");
}
