//! A boot line that looks right and does nothing: the kernel takes it without refusing.

use super::isolated::LOOK;
use crate::lab::evidence::Evidence;
use crate::lab::scenario::{PARALLEL, RECORDING, Scenario};
use crate::lab::tally::Tally;

/// What the audit must say: two of the three parameters are wrong, the third one works.
const EXPECT: &[(&str, &str)] = &[
    ("isolation.isolcpus", "fail"),
    ("isolation.rcu-nocbs", "pass"),
    ("isolation.housekeeping", "pass"),
    ("boot.duplicate-tokens", "pass"),
];

/// The checks of the boot line.
const GROUPS: &[&str] = &["isolation.", "boot."];

/// What of them may fail, and why each is true.
const FAILING: &[&str] = &[
    // nohz_ful= is in the kernel's list of what it did not take, and so is isolcpus=99.
    "boot.unknown-tokens",
    // isolcpus= says 99, rcu_nocbs= says 2-3.
    "isolation.consistent",
    // There is no CPU 99,
    "isolation.cpus-exist",
    // so nothing is isolated.
    "isolation.isolcpus",
    // No CPU is in /sys/devices/system/cpu/nohz_full.
    "isolation.nohz-full",
];

pub const SCENARIO: Scenario = Scenario {
    name: "typo",
    about: "isolcpus= out of range and nohz_full= misspelt; audit fails those, not rcu_nocbs=",
    kernel: None,
    boot: "isolcpus=99 nohz_ful=2,3 rcu_nocbs=2,3",
    cpu: "max",
    smp: "4",
    accel: PARALLEL,
    qemu: &[],
    acpi: None,
    modules: &[],
    look: LOOK,
    premises,
    audit: "",
    expect: EXPECT,
    recording: Some(RECORDING),
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
    tally.failing("audit", &e.json("audit").unwrap_or_default(), GROUPS, FAILING);
}
