//! A host isolated as it should be: the audit must see that, and jitter must run on such a CPU.

use crate::lab::evidence::Evidence;
use crate::lab::scenario::{Scenario, Step};
use crate::lab::tally::Tally;

/// What the audit must say of a correct boot line.
/// `isolcpus=` keeps no interrupt away, so what the boot line lacks for that must be found, too.
const EXPECT: &[(&str, &str)] = &[("isolation.isolcpus", "pass"), ("irq.default-affinity", "fail")];

pub const SCENARIO: Scenario = Scenario {
    name: "isolated",
    about: "CPUs 2-3 isolated by a correct boot line; audit passes it, jitter runs there",
    boot: "isolcpus=2,3 nohz_full=2,3 rcu_nocbs=2,3",
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
    steps: &[Step::new("jitter", 60, "quietcore jitter --cpus 2 --duration 2s --format json")],
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
    let done = matches!(e.code("jitter"), 0 | 1);
    tally.check(done && run.is_some(), "jitter on isolated CPU 2 prints a run as JSON", || {
        e.ending("jitter")
    });
}
