//! Isolation that names only CPUs that do not exist: nothing can be said of those CPUs.

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
