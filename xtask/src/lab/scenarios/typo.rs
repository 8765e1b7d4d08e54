//! A boot line that looks right and does nothing: the kernel takes it without refusing.

use super::isolated::LOOK;
use crate::lab::evidence::{Evidence, findings};
use crate::lab::scenario::Scenario;
use crate::lab::tally::Tally;

/// What the audit must say: two of the three parameters are wrong, and only those may fail.
const EXPECT: &[(&str, &str)] = &[("isolation.isolcpus", "fail")];

/// The checks among which nothing else may fail: those that judge what the boot line asked for.
const GROUPS: &[&str] = &["isolation."];

pub const SCENARIO: Scenario = Scenario {
    name: "typo",
    about: "isolcpus= out of range and nohz_full= misspelt; audit fails those, not rcu_nocbs=",
    boot: "isolcpus=99 nohz_ful=2,3 rcu_nocbs=2,3",
    cpu: "max",
    smp: "4",
    qemu: &[],
    acpi: None,
    modules: &[],
    look: LOOK,
    premises,
    audit: "",
    expect: EXPECT,
    steps: &[],
    judge,
};

fn premises(e: &Evidence, tally: &mut Tally) {
    let value = |key: &str| e.value("look", key).unwrap_or_default();
    let isolated = value("isolated");
    tally.premise(isolated.is_empty(), "nothing is isolated", || isolated.clone());
    let full = value("nohz_full");
    // How the kernel prints an empty set of CPUs differs between versions.
    tally.premise(full == "(null)" || full.is_empty(), "no CPU is nohz_full", || full.clone());
    let unknown = value("log_unknown");
    tally.premise(unknown.contains("nohz_ful=2,3"), "the kernel log names nohz_ful=", || {
        unknown.clone()
    });
    let rcu = value("log_rcu");
    tally.premise(rcu == "2-3.", "RCU callbacks of 2-3 are offloaded", || rcu.clone());
}

fn judge(e: &Evidence, tally: &mut Tally) {
    let run = e.json("audit").unwrap_or_default();
    let mut failing: Vec<String> = findings(&run)
        .into_iter()
        .filter(|f| f.status == "fail" && GROUPS.iter().any(|g| f.id.starts_with(g)))
        .map(|f| f.id)
        .collect();
    failing.sort();
    let mut expected: Vec<&str> =
        EXPECT.iter().filter(|(_, status)| *status == "fail").map(|(id, _)| *id).collect();
    expected.sort_unstable();
    tally.check(failing == expected, "audit: nothing else of the boot line fails", || {
        format!("failing are {}", failing.join(", "))
    });
}
