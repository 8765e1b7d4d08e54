//! What may disturb a thread where it is placed, on a host whose CPUs are in order.

use quietcore_facts::{Cgroups, Facts};
use quietcore_host::placement::{Ground, Placement, Refusal, assign, cautions};
use quietcore_sys::Host;
use quietcore_sys::host::Snapshot;
use serde_json::json;

use crate::snapshot;

const PID: u32 = 4711;

fn placed(facts: &Facts, map: &str) -> Result<Vec<Placement>, Vec<Refusal>> {
    let threads = facts.host().threads(PID).unwrap();
    let member = Cgroups::membership(facts, Some(PID));
    let cpuset = member.and_then(|member| facts.cgroups().cpus_of(facts, &member));
    let cpuset = cpuset.value().cloned();
    let ground = Ground { pid: PID, threads: &threads, online: &facts.cpus().online, cpuset };
    assign(&map.parse().unwrap(), &ground, false)
}

/// Thread, what is said and what it stands on.
fn said(host: Snapshot, map: &str) -> Vec<String> {
    let facts = Facts::of(Host::recorded(host));
    let placements = placed(&facts, map).unwrap();
    let found = cautions(&facts, &placements);
    found.iter().map(|c| format!("{}: {} [{}]", c.thread, c.text, c.evidence.value)).collect()
}

#[test]
fn of_isolated_cores_that_nobody_shares_nothing_is_said() {
    assert_eq!(said(snapshot("two-socket"), "btc=4,eth=5,*=0-1"), Vec::<String>::new());
}

#[test]
fn what_may_disturb_a_thread_is_said_with_what_it_stands_on() {
    let host = || snapshot("two-socket");
    for (map, expected) in [
        (
            "btc=20",
            &["btc/4712: other tasks may run on CPUs 20, which are not isolated [2-19,42-59]"][..],
        ),
        (
            "btc=4,eth=44",
            &[
                "btc/4712: eth/4713 may run on CPUs 44, which share the core [4,44]",
                "eth/4713: btc/4712 may run on CPUs 4, which share the core [4,44]",
            ],
        ),
        (
            "btc=4,*=44",
            &["btc/4712: engine/4711 and 1 more may run on CPUs 44, which share the core [4,44]"],
        ),
    ] {
        assert_eq!(said(host(), map), expected, "{map}");
    }
    let said = said(host(), "btc=0");
    assert!(
        said[1].contains("interrupts may fire on CPUs 0 [") && said[1].contains("eth0"),
        "{said:?}"
    );
}

#[test]
fn what_is_not_known_of_a_cpu_is_said() {
    let mut host = snapshot("two-socket");
    host.set("read /sys/devices/system/cpu/isolated", json!({"error": "denied"}));
    host.set("read /proc/interrupts", json!({"error": "denied"}));
    let said = said(host, "btc=4");
    assert!(
        said[0].contains("whether CPUs 4 are isolated is not known [")
            && said[0].contains("denied")
    );
    assert!(said[1].contains("which interrupts may fire there is not known"), "{said:?}");
}

#[test]
fn cpus_outside_the_control_group_are_refused_with_its_file() {
    let mut host = snapshot("two-socket");
    let file = "/sys/fs/cgroup/system.slice/engine.service/cpuset.cpus.effective";
    host.set(&format!("read {file}"), json!("0-5\n"));
    let facts = Facts::of(Host::recorded(host));
    let refused = placed(&facts, "btc=4,eth=6").unwrap_err();
    let [Refusal::Outside { cpus, file: named, .. }] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((cpus.to_string().as_str(), named.as_str()), ("6", file));
}
