//! Machines as they were recorded: what the essential checks say of each.
//!
//! The guests' recordings are made anew by `cargo xtask lab record`; the same is demanded of them
//! while they run.

use quietcore_measure::{Finding, Status};

use crate::{judge, names, snapshot, with_status};

/// What is demanded of one recorded host.
struct Demand {
    host: &'static str,
    /// `--cpus`.
    cpus: Option<&'static str>,
    /// Checks that must have this status.
    statuses: &'static [(&'static str, Status)],
}

use Status::{Fail, NotApplicable, Pass, Unknown, Warn};

const DEMANDS: &[Demand] = &[
    Demand {
        host: "isolated",
        cpus: None,
        statuses: &[
            ("isolation.isolcpus", Pass),
            ("isolation.nohz-full", Pass),
            ("isolation.rcu-nocbs", Pass),
            ("isolation.consistent", Pass),
            ("isolation.cpus-exist", Pass),
            ("isolation.housekeeping", Pass),
            ("boot.unknown-tokens", Pass),
            ("rcu.rcuo-placement", Pass),
            ("irq.default-affinity", Pass),
            ("irq.effective-affinity", Pass),
            ("sched.tasks-on-isolated", Pass),
            ("sched.kernel-threads", Pass),
            ("sched.workqueue-cpumask", Pass),
            ("sched.watchdog", Pass),
            ("virt.hypervisor", Warn),
        ],
    },
    // A CPU that the boot line left out.
    Demand {
        host: "isolated",
        cpus: Some("1"),
        statuses: &[
            ("isolation.nohz-full", Fail),
            ("isolation.rcu-nocbs", Fail),
            ("irq.default-affinity", Fail),
            ("sched.workqueue-cpumask", Fail),
        ],
    },
    Demand {
        host: "typo",
        cpus: None,
        statuses: &[
            ("isolation.isolcpus", Fail),
            ("isolation.cpus-exist", Fail),
            ("isolation.nohz-full", Fail),
            ("isolation.consistent", Fail),
            ("boot.unknown-tokens", Fail),
            ("isolation.rcu-nocbs", Pass),
            ("isolation.housekeeping", Pass),
        ],
    },
    Demand {
        host: "cstates",
        cpus: Some("2-3"),
        statuses: &[
            ("cstate.exit-latency", Fail),
            ("freq.governor", Fail),
            ("freq.limit", Pass),
            ("clock.source", Fail),
        ],
    },
    Demand { host: "cstates", cpus: None, statuses: &[("cstate.exit-latency", Warn)] },
    Demand {
        host: "smi",
        cpus: Some("0"),
        statuses: &[("smi.rising", Fail), ("smi.count", Unknown)],
    },
    // A socket's half each: two nodes, and siblings that do everything else.
    Demand {
        host: "numa",
        cpus: Some("1-2"),
        statuses: &[
            ("numa.latency-cpus-span", Warn),
            ("smt.isolated-siblings", Fail),
            ("irq.nic-queues", Fail),
        ],
    },
    Demand {
        host: "numa",
        cpus: Some("2-3"),
        statuses: &[
            ("numa.latency-cpus-span", Pass),
            ("smt.isolated-siblings", Pass),
            ("net.numa-node", Pass),
        ],
    },
    Demand { host: "numa", cpus: Some("0-1"), statuses: &[("net.numa-node", Fail)] },
    Demand {
        host: "vm-2-core",
        cpus: None,
        statuses: &[
            ("isolation.isolcpus", NotApplicable),
            ("clock.source", Pass),
            ("clock.sync", Warn),
            ("sched.cpu-pressure", Warn),
            ("virt.balloon", Warn),
            ("virt.hypervisor", Warn),
            ("virt.steal-since-boot", Warn),
        ],
    },
];

#[test]
fn the_essential_checks_say_of_each_host_what_is_true() {
    let mut wrong = Vec::new();
    for Demand { host, cpus, statuses } in DEMANDS {
        let findings = judge(snapshot(host), *cpus, None);
        for (id, status) in *statuses {
            let all: Vec<&Finding> = findings.iter().filter(|f| f.id == *id).collect();
            assert!(!all.is_empty(), "there is no check {id}");
            let odd = all.iter().filter(|f| f.status != *status);
            wrong.extend(odd.map(|f| {
                let cpus = cpus.unwrap_or("-");
                format!("{host}, --cpus {cpus}: {id} is {}, not {status}: {}", f.status, f.title)
            }));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_well_booted_and_tuned_guest_fails_in_nothing_but_its_clock() {
    let findings = judge(snapshot("isolated"), None, None);
    // True: no daemon can keep the clock of a guest that reaches no other.
    assert_eq!(with_status(&findings, Fail), ["clock.sync"]);
}

#[test]
fn of_a_wrong_boot_line_only_what_is_wrong_fails() {
    let findings = judge(snapshot("typo"), None, None);
    let mut failed = with_status(&findings, Fail);
    failed.retain(|id| id.starts_with("isolation.") || id.starts_with("boot."));
    failed.sort_unstable();
    let expected = [
        "boot.unknown-tokens",
        "isolation.consistent",
        "isolation.cpus-exist",
        "isolation.isolcpus",
        "isolation.nohz-full",
    ];
    assert_eq!(failed, expected);
}

#[test]
fn machines_that_nobody_tuned_fail_in_at_most_five_things() {
    for host in ["vm-2-core", "numa", "smi", "cstates"] {
        let findings = judge(snapshot(host), None, None);
        let failed = with_status(&findings, Fail);
        assert!(failed.len() <= 5, "{host}: {failed:?}");
    }
}

#[test]
fn every_recorded_host_says_what_it_is() {
    let hosts = names();
    assert!(hosts.len() >= 8, "{hosts:?}");
    for host in hosts {
        let snapshot = snapshot(&host);
        assert_eq!(snapshot.name, host);
        assert!(!snapshot.about.is_empty(), "{host}");
    }
}
