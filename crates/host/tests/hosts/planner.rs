//! The split of CPUs that is proposed for each host, and what is said of those that users make.

use proptest::prelude::*;
use quietcore_facts::Facts;
use quietcore_host::planner::{Reason, Refusal, Split, Wish, examine, propose};
use quietcore_measure::CpuSet;
use quietcore_sys::Host;
use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use crate::{names, snapshot};

const CPU: &str = "/sys/devices/system/cpu";

fn facts(host: Snapshot) -> Facts {
    Facts::of(Host::recorded(host))
}

fn set(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

fn cores(count: usize) -> Wish {
    Wish { isolate: Some(count), ..Wish::default() }
}

fn warnings(why: &[Reason]) -> Vec<&str> {
    why.iter().filter(|reason| reason.is_warning).map(|reason| reason.text.as_str()).collect()
}

fn is_said(why: &[Reason], text: &str) -> bool {
    why.iter().any(|reason| reason.text.contains(text))
}

#[test]
fn each_host_is_split_as_its_topology_asks() {
    let near = |name: &str| Wish { near: Some(name.to_owned()), ..Wish::default() };
    let forced = Wish { isolate: Some(39), force: true, ..Wish::default() };
    for (host, wish, isolated) in [
        // 20 cores of the card's node, of which 3 are kept.
        ("two-socket", Wish::default(), "3-19,43-59"),
        ("two-socket", cores(4), "16-19,56-59"),
        ("two-socket", cores(18), "3-19,39,43-59,79"),
        ("two-socket", near("eth0.7"), "3-19,43-59"),
        ("two-socket", forced, "1-39,41-79"),
        ("laptop", Wish::default(), "1-3,5-7"),
        ("laptop", cores(1), "3,7"),
        // Two cores with two threads each: the one that is not CPU 0's.
        ("numa", Wish::default(), "2-3"),
        ("isolated", Wish::default(), "2-3"),
        ("isolated", Wish { isolate: Some(3), force: true, ..Wish::default() }, "1-3"),
        ("vm-2-core", Wish::default(), "1"),
    ] {
        let split = propose(&facts(snapshot(host)), &wish).unwrap();
        assert_eq!(split.isolated, set(isolated), "{host} {wish:?}");
    }
}

#[test]
fn a_proposal_says_what_it_stands_on() {
    let host = facts(snapshot("two-socket"));
    let why = propose(&host, &Wish::default()).unwrap().why;
    assert!(warnings(&why).is_empty(), "{why:#?}");
    for text in [
        "on node 0 of eth0 (the default route leaves by eth0.7 above it)",
        "CPUs 0-2,20-42,60-79 are left for everything else",
        "whole cores",
        "share one last-level cache",
    ] {
        assert!(is_said(&why, text), "{text}: {why:#?}");
    }
    assert!(why.iter().all(|reason| !reason.evidence.is_empty()), "{why:#?}");
    let sources: Vec<&str> =
        why.iter().flat_map(|reason| &reason.evidence).map(|e| e.source.as_str()).collect();
    assert!(sources.contains(&"/sys/class/net/eth0/device/numa_node"), "{sources:?}");
}

#[test]
fn what_is_not_known_is_said() {
    let mut host = snapshot("two-socket");
    host.set("read /sys/class/net/eth0/device/numa_node", json!("-1\n"));
    host.set("read /sys/devices/cpu_core/cpus", json!({"error": "denied"}));
    for cpu in 0..80 {
        host.set(&format!("read {CPU}/cpu{cpu}/cache/index3/shared_cpu_list"), Value::Null);
    }
    let why = propose(&facts(host), &Wish::default()).unwrap().why;
    for text in ["does not tell the node of eth0", "could not be told", "cache is not known"] {
        assert!(warnings(&why).iter().any(|warning| warning.contains(text)), "{text}: {why:#?}");
    }
}

#[test]
fn without_a_default_route_the_card_with_the_most_queues_counts() {
    let mut host = snapshot("two-socket");
    host.set("default routes", json!([]));
    let why = propose(&facts(host), &Wish::default()).unwrap().why;
    assert!(is_said(&why, "eth0 (no default route, most receive queues (4))"), "{why:#?}");
}

#[test]
fn the_card_that_is_named_decides() {
    let mut host = snapshot("two-socket");
    host.set("list /sys/class/net", json!(["eth0", "eth0.7", "eth1", "lo"]));
    for (key, answer) in host.moments[0].clone() {
        if key.contains("/sys/class/net/eth0/") || key.ends_with("/sys/class/net/eth0") {
            host.set(&key.replace("net/eth0", "net/eth1"), answer);
        }
    }
    host.set("read /sys/class/net/eth1/device/numa_node", json!("1\n"));
    let wish = Wish { isolate: Some(2), near: Some("eth1".to_owned()), force: false };
    let host = facts(host);
    assert_eq!(propose(&host, &wish).unwrap().isolated, set("38-39,78-79"));
    let wish = Wish { near: Some("eth7".to_owned()), ..wish };
    let refusal = propose(&host, &wish).unwrap_err();
    assert!(refusal.to_string().ends_with("name eth0 or eth1"), "{refusal}");
}

/// 8 CPUs of one thread each; `more` as keys and answers.
fn eight(more: &[(&str, Value)]) -> Facts {
    let mut host = Machine { nodes: 1, caches: 1, cores: 8, threads: 1 }.snapshot();
    for (key, answer) in more {
        host.set(key, answer.clone());
    }
    facts(host)
}

#[test]
fn on_a_hybrid_part_only_fast_cores_are_isolated() {
    let intel = eight(&[("read /sys/devices/cpu_core/cpus", json!("0-3\n"))]);
    let capacity = |cpu: usize| if cpu < 4 { "1024\n" } else { "446\n" };
    let files: Vec<String> =
        (0..8).map(|cpu| format!("read {CPU}/cpu{cpu}/cpu_capacity")).collect();
    let answers: Vec<(&str, Value)> =
        files.iter().enumerate().map(|(cpu, file)| (file.as_str(), json!(capacity(cpu)))).collect();
    for host in [intel, eight(&answers)] {
        let split = propose(&host, &Wish::default()).unwrap();
        assert_eq!(split.isolated, set("1-3"));
        assert!(is_said(&split.why, "CPUs 4-7 are slower cores and left out"), "{:#?}", split.why);
        let refusal = propose(&host, &cores(4)).unwrap_err();
        assert!(matches!(refusal, Refusal::TooMany { most: 3, .. }), "{refusal}");
        let why = examine(&host, &set("3-4"), false).unwrap();
        assert!(is_said(&why, "CPUs 4 are slower cores"), "{why:#?}");
    }
}

#[test]
fn threads_that_need_few_cores_get_them_in_one_cache_away_from_the_first_core() {
    let host = Machine { nodes: 2, caches: 4, cores: 4, threads: 2 };
    let facts = facts(host.snapshot());
    for (count, isolated) in [(3, "5-7,37-39"), (4, "4-7,36-39"), (5, "4-7,11,36-39,43")] {
        assert_eq!(propose(&facts, &cores(count)).unwrap().isolated, set(isolated));
    }
}

#[test]
fn a_wrong_split_is_refused_with_the_right_one() {
    for (host, isolated, refused) in [
        ("laptop", "1-2,5", vec!["cores would be split: 2 without 6", "name 1-2,5-6 instead"]),
        ("laptop", "0,4,3,7", vec!["CPU 0 would be isolated", "name 3,7 instead"]),
        ("laptop", "4", vec!["4 without 0", "name other CPUs"]),
        ("laptop", "0-7", vec!["none left", "leave at least CPUs 0,4 out"]),
        ("laptop", "8", vec!["CPUs 8 do not exist: name CPUs of 0-7"]),
        ("laptop", "", vec!["no CPU is named"]),
        ("laptop", "1,5,9-10", vec!["CPUs 9-10 do not exist"]),
        ("numa", "1-2", vec!["1 without 0, 2 without 3", "name 2-3 instead"]),
        ("isolated", "0-3", vec!["leave at least CPUs 0 out"]),
    ] {
        let refusals = examine(&facts(snapshot(host)), &set(isolated), false).unwrap_err();
        let text = refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        for refused in refused {
            assert!(text.contains(refused), "{host} {isolated}: {text}");
        }
    }
}

#[test]
fn a_cpu_that_is_offline_is_told_from_one_that_is_not_there() {
    let mut host = snapshot("isolated");
    host.set(&format!("read {CPU}/online"), json!("0-2\n"));
    let refusals = examine(&facts(host), &set("2-4"), false).unwrap_err();
    let [Refusal::Missing { cpus: missing, .. }, Refusal::Offline { cpus: offline, .. }] =
        &refusals[..]
    else {
        panic!("{refusals:?}")
    };
    assert_eq!((missing, offline), (&set("4"), &set("3")));
}

#[test]
fn where_the_cpus_cannot_be_read_nothing_is_proposed() {
    let nothing = facts(Snapshot::new("nothing"));
    assert_eq!(propose(&nothing, &Wish::default()), Err(Refusal::Unknown));
    assert_eq!(examine(&nothing, &set("1"), true), Err(vec![Refusal::Unknown]));
}

#[test]
fn a_bold_split_is_warned_of() {
    let server = |isolated: &str, force: bool| {
        examine(&facts(snapshot("two-socket")), &set(isolated), force).unwrap()
    };
    for (isolated, text) in [
        ("20-21,60-61", "CPUs 20-21,60-61 are not on node 0, where eth0 is"),
        ("19-20,59-60", "the isolated CPUs are on nodes 0, 1"),
        ("19-20,59-60", "2 last-level caches (19,59 | 20,60)"),
        ("20-39,60-79", "no CPU of node 1 is kept"),
        ("1-38,41-78", "2 cores do everything else for 38 isolated ones"),
    ] {
        assert!(is_said(&server(isolated, false), text), "{isolated}: {text}");
    }
    assert!(warnings(&server("19,59", false)).is_empty());
    assert!(is_said(&server("0,40", true), "CPU 0 is isolated"));
}

#[test]
fn every_recorded_host_answers_what_the_planner_asks() {
    for name in names() {
        let facts = facts(snapshot(&name));
        let split = propose(&facts, &Wish::default()).unwrap();
        assert!(facts.cpus().slower.value().is_some(), "{name}: {:?}", facts.cpus().slower);
        let routes = &facts.nics().default_routes;
        assert!(!routes.why().contains("not in the snapshot"), "{name}: {routes:?}");
        assert!(examine(&facts, &split.isolated, false).is_ok(), "{name}");
    }
}

/// A machine as regular as most are; CPU n of the first thread of each core, then the second ones.
#[derive(Clone, Copy, Debug)]
struct Machine {
    nodes: usize,
    /// Per node.
    caches: usize,
    /// Per cache.
    cores: usize,
    threads: usize,
}

impl Machine {
    fn cores(self) -> usize {
        self.nodes * self.caches * self.cores
    }

    /// The CPUs of cores `first..first + count`.
    fn cpus(self, first: usize, count: usize) -> CpuSet {
        let thread = |n: usize| (first..first + count).map(move |core| n * self.cores() + core);
        (0..self.threads).flat_map(thread).collect()
    }

    fn snapshot(self) -> Snapshot {
        let mut host = Snapshot::new("made");
        let mut file = |path: String, text: String| {
            host.set(&format!("read {path}"), json!(format!("{text}\n")));
        };
        let all = self.cpus(0, self.cores());
        for name in ["online", "possible"] {
            file(format!("{CPU}/{name}"), all.to_string());
        }
        let node = self.caches * self.cores;
        for number in 0..self.nodes {
            let path = format!("/sys/devices/system/node/node{number}/cpulist");
            file(path, self.cpus(number * node, node).to_string());
        }
        for cpu in all.iter() {
            let core = cpu % self.cores();
            let path = format!("{CPU}/cpu{cpu}");
            let siblings = self.cpus(core, 1).to_string();
            file(format!("{path}/topology/thread_siblings_list"), siblings);
            let shared = self.cpus(core / self.cores * self.cores, self.cores);
            file(format!("{path}/cache/index3/shared_cpu_list"), shared.to_string());
        }
        let names: Vec<String> = (0..self.nodes).map(|node| format!("node{node}")).collect();
        host.set("list /sys/devices/system/node", json!(names));
        host.set("list /sys/class/net", json!([]));
        host.set("default routes", json!([]));
        host.set("read /sys/devices/cpu_core/cpus", Value::Null);
        host.set(&format!("read {CPU}/cpu0/cpu_capacity"), Value::Null);
        host
    }
}

fn machines() -> impl Strategy<Value = Machine> {
    (1usize..=4, 1usize..=4, 1usize..=6, 1usize..=2)
        .prop_map(|(nodes, caches, cores, threads)| Machine { nodes, caches, cores, threads })
}

fn is_sound(host: &Facts, split: &Split) {
    let online = &host.cpus().online;
    let Split { isolated, housekeeping, why } = split;
    assert!(!isolated.is_empty() && isolated.is_subset(online) && !isolated.contains(0));
    assert!(!housekeeping.is_empty() && !housekeeping.intersects(isolated));
    assert_eq!(&isolated.or(housekeeping), online);
    for place in host.cpus().topology.values() {
        // A sibling that is offline is no part of its core any more.
        let core = place.siblings.and(online);
        let inside = core.and(isolated);
        assert!(inside.is_empty() || inside == core, "{isolated} splits a core");
    }
    assert!(!why.is_empty() && why.iter().all(|reason| !reason.text.is_empty()));
    assert!(examine(host, isolated, false).is_ok(), "{isolated}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_proposal_is_whole_cores_without_the_first_and_stands_its_own_examination(
        machine in machines(),
        isolate in proptest::option::of(0usize..100),
        force in any::<bool>(),
        offline in proptest::collection::btree_set(1usize..200, 0..6),
        fast in proptest::option::of(1usize..100),
    ) {
        let mut host = machine.snapshot();
        let all = machine.cpus(0, machine.cores());
        let online = all.minus(&offline.into_iter().collect());
        host.set(&format!("read {CPU}/online"), json!(online.to_string()));
        if let Some(fast) = fast {
            host.set("read /sys/devices/cpu_core/cpus", json!(format!("0-{fast}")));
        }
        let facts = facts(host);
        let wish = Wish { isolate, near: None, force };
        match propose(&facts, &wish) {
            Ok(split) => is_sound(&facts, &split),
            Err(Refusal::TooMany { wanted, most, .. }) => {
                prop_assert!(wanted > most);
                // As many as are said to be possible are.
                if most > 0 {
                    let split = propose(&facts, &Wish { isolate: Some(most), ..wish });
                    prop_assert!(split.is_ok(), "{:?}", split);
                }
            }
            Err(Refusal::Nothing { .. }) => prop_assert_eq!(isolate, Some(0)),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn with_all_cpus_alike_and_online_something_can_be_proposed_wherever_there_are_two_cores(
        machine in machines(),
    ) {
        let split = propose(&facts(machine.snapshot()), &Wish::default());
        prop_assert_eq!(split.is_ok(), machine.cores() > 1);
    }

    #[test]
    fn of_any_split_either_a_reason_or_a_refusal_is_given_and_a_refused_one_can_be_mended(
        machine in machines(),
        named in proptest::collection::btree_set(0usize..200, 0..40),
    ) {
        let facts = facts(machine.snapshot());
        let named: CpuSet = named.into_iter().collect();
        if let Err(refusals) = examine(&facts, &named, false) {
            prop_assert!(!refusals.is_empty());
            for refusal in refusals {
                let mended = match refusal {
                    Refusal::SplitCores { whole, .. } => whole,
                    Refusal::FirstCpu { rest } => rest,
                    _ => continue,
                };
                prop_assert!(mended.is_empty() || examine(&facts, &mended, false).is_ok());
            }
        }
    }
}
