//! A host isolated as it should be: the audit must see that, and jitter must run on such a CPU.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::lab::evidence::{Evidence, rows};
use crate::lab::scenario::{Scenario, Step};
use crate::lab::tally::Tally;

/// What the audit must say of a correct boot line.
/// `isolcpus=` keeps no interrupt away, so what the boot line lacks for that must be found, too.
const EXPECT: &[(&str, &str)] = &[("isolation.isolcpus", "pass"), ("irq.default-affinity", "fail")];

pub const SCENARIO: Scenario = Scenario {
    name: "isolated",
    about: "CPUs 2-3 isolated by a correct boot line; audit passes it, jitter runs there",
    // On a busy host the emulated clocks drift apart, the kernel's watchdog then calls the TSC
    // unstable, and with an unstable clock the tick stays on, nohz_full= or not.
    boot: "isolcpus=2,3 nohz_full=2,3 rcu_nocbs=2,3 tsc=reliable",
    // With QEMU's own CPU model the kernel distrusts the TSC, as quietcore then must.
    cpu: "max,vendor=GenuineIntel,family=6,model=94",
    smp: "4",
    qemu: &[],
    acpi: None,
    modules: &[],
    look: LOOK,
    premises,
    audit: "",
    expect: EXPECT,
    // CPU 1 is not isolated and spins beside it, to compare.
    steps: &[Step::new("jitter", 60, "quietcore jitter --cpus 1-2 --duration 3s --format json")],
    judge,
};

/// Shared with `typo`, which must find the opposite.
pub const LOOK: &str = "\
echo isolated=$(cat /sys/devices/system/cpu/isolated)
echo nohz_full=$(cat /sys/devices/system/cpu/nohz_full)
echo log_nohz=$(dmesg | sed -n 's/.*NO_HZ: Full dynticks CPUs: //p')
echo log_rcu=$(dmesg | sed -n 's/.*Offload RCU callbacks from CPUs: //p')
echo log_range=$(dmesg | grep -o 'Housekeeping: .*')
echo log_unknown=$(dmesg | grep -o 'Unknown kernel command line parameters.*')
";

fn premises(e: &Evidence, tally: &mut Tally) {
    for (key, expected) in
        [("isolated", "2-3"), ("nohz_full", "2-3"), ("log_nohz", "2-3."), ("log_rcu", "2-3.")]
    {
        let value = e.value("look", key).unwrap_or_default();
        tally.premise(value == expected, &format!("{key} is {expected}"), || {
            format!("it is {value:?}")
        });
    }
}

fn judge(e: &Evidence, tally: &mut Tally) {
    let run = e.json("jitter");
    let done = matches!(e.code("jitter"), 0 | 1) && run.is_some();
    tally.check(done, "jitter on CPUs 1 and 2 prints a run as JSON", || e.ending("jitter"));
    let run = run.unwrap_or_default();
    let turns = rows(&run, "jitter_surroundings");
    for cpu in [1, 2] {
        let there = turns.iter().any(|row| row.get("cpu").and_then(|c| c.as_i64()) == Some(cpu));
        tally.check(there, &format!("jitter says what went on around CPU {cpu}"), || {
            "there is no such row".to_string()
        });
    }
    // How often, never how long: that a busy nohz_full CPU has no tick holds under emulation, too.
    let (with, without) = (ticks(&run, 1), ticks(&run, 2));
    let quiet = with.zip(without).is_some_and(|(with, without)| without * 4 < with);
    tally.check(quiet, "jitter counts the ticks of CPU 1 and hardly any on CPU 2", || {
        format!("CPU 1 has {with:?}, CPU 2 has {without:?}")
    });
}

/// Local timer interrupts that jitter counted on a CPU; none is no row.
fn ticks(run: &Value, cpu: i64) -> Option<i64> {
    let all = rows(run, "jitter_interrupts");
    if all.is_empty() {
        return None;
    }
    let of_cpu = |row: &&BTreeMap<&str, &Value>| {
        row.get("cpu").and_then(|c| c.as_i64()) == Some(cpu)
            && row.get("irq").and_then(|i| i.as_str()) == Some("LOC")
    };
    Some(all.iter().find(of_cpu).and_then(|row| row.get("count")?.as_i64()).unwrap_or(0))
}
