//! Which CPUs are judged: those that were asked for, and none where those that were meant are not
//! there.

use quietcore_host::{Needs, checks};
use quietcore_measure::Status;
use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use crate::{judge, snapshot};

/// The tuned server, booted with a list beyond its CPUs.
fn beyond() -> Snapshot {
    let mut host = snapshot("two-socket");
    let Some(Value::String(line)) = host.moments[0].get("cmdline").cloned() else {
        panic!("the server has no command line")
    };
    let keep = |word: &&str| {
        !["isolcpus=", "nohz_full=", "rcu_nocbs="].iter().any(|name| word.starts_with(name))
    };
    let rest: Vec<&str> = line.split_whitespace().filter(keep).collect();
    host.set("cmdline", json!(format!("{} isolcpus=1999", rest.join(" "))));
    host.set("read /sys/devices/system/cpu/isolated", json!("\n"));
    host.set("read /sys/devices/system/cpu/nohz_full", json!("\n"));
    host
}

#[test]
fn no_check_of_certain_cpus_passes_where_none_of_them_is_there() {
    let findings = judge(beyond(), None, None);
    let needs_cpus =
        |id: &str| checks::ALL.iter().any(|check| check.id == id && check.needs == Needs::Cpus);
    let wrong: Vec<String> = findings
        .iter()
        .filter(|f| {
            let speaks_of_none = f.title.ends_with("CPUs ") || f.title.contains("CPUs :");
            let decided = needs_cpus(&f.id) && f.status != Status::Unknown;
            decided || (f.status == Status::Pass && speaks_of_none)
        })
        .map(|f| format!("{} {}: {}", f.status, f.id, f.title))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let failed: Vec<&str> =
        findings.iter().filter(|f| f.status == Status::Fail).map(|f| f.id.as_str()).collect();
    assert!(failed.contains(&"isolation.isolcpus"), "{failed:?}");
}

#[test]
fn cpus_that_were_asked_for_must_be_isolated_whatever_else_is() {
    let status = |cpus: &str| {
        let findings = judge(snapshot("two-socket"), Some(cpus), None);
        findings.into_iter().find(|f| f.id == "isolation.isolcpus").unwrap()
    };
    assert_eq!(status("4-5").status, Status::Pass);
    let beyond = status("0-3");
    assert_eq!(beyond.status, Status::Fail);
    assert!(beyond.title.contains("CPUs 0-1:"), "{}", beyond.title);
}

#[test]
fn an_unreadable_boot_line_is_no_partition() {
    let mut host = snapshot("two-socket");
    host.set("cmdline", json!({"error": "denied"}));
    let findings = judge(host, None, None);
    let finding = findings.into_iter().find(|f| f.id == "isolation.isolcpus").unwrap();
    assert_eq!(finding.title, "CPUs 2-19,42-59 are isolated");
}
