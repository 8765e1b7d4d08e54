//! Idle states and a frequency driver that answer, made of an ACPI table.

use crate::lab::evidence::Evidence;
use crate::lab::scenario::{Scenario, Step};
use crate::lab::tally::Tally;

/// What the audit must say of deep idle states and a governor other than performance.
const EXPECT: &[(&str, &str)] = &[];

pub const SCENARIO: Scenario = Scenario {
    name: "cstates",
    about: "ACPI idle states of 2, 10 and 124 us and acpi-cpufreq; power prints and sees changes",
    boot: "",
    // acpi-cpufreq only takes fixed-function idle registers and ports from a CPU of this make.
    cpu: "max,vendor=GenuineIntel,family=6,model=94",
    smp: "4",
    qemu: &[],
    acpi: Some("cstates.asl"),
    modules: &["acpi_cpufreq", "cpufreq_powersave"],
    look: "\
cd /sys/devices/system/cpu
echo idle_driver=$(cat cpuidle/current_driver)
echo latencies=$(cat cpu0/cpuidle/state*/latency)
echo freq_driver=$(cat cpufreq/policy0/scaling_driver)
echo governors=$(cat cpufreq/policy0/scaling_available_governors)
echo policies=$(ls -d cpufreq/policy* | wc -l)
",
    premises,
    audit: "",
    expect: EXPECT,
    steps: &[
        Step::new("power", 60, "quietcore power --format json"),
        Step::new(
            "change",
            30,
            "\
cd /sys/devices/system/cpu
echo powersave >cpufreq/policy1/scaling_governor
echo governor=$(cat cpufreq/policy1/scaling_governor)
echo 1 >cpu2/cpuidle/state3/disable
echo disable=$(cat cpu2/cpuidle/state3/disable)
echo 2000000 >cpufreq/policy3/scaling_max_freq
echo cap=$(cat cpufreq/policy3/scaling_max_freq)
",
        ),
        Step::new("power-after", 60, "quietcore power --format json"),
    ],
    judge,
};

fn premises(e: &Evidence, tally: &mut Tally) {
    for (key, expected) in [
        ("idle_driver", "acpi_idle"),
        ("latencies", "0 2 10 124"),
        ("freq_driver", "acpi-cpufreq"),
        ("policies", "4"),
    ] {
        let value = e.value("look", key).unwrap_or_default();
        tally.premise(value == expected, &format!("{key} is {expected}"), || {
            format!("it is {value:?}")
        });
    }
    for (key, expected) in [("governor", "powersave"), ("disable", "1"), ("cap", "2000000")] {
        let value = e.value("change", key).unwrap_or_default();
        tally.premise(value == expected, &format!("{key} takes {expected}"), || {
            format!("it is {value:?}, {}", e.ending("change"))
        });
    }
}

fn judge(e: &Evidence, tally: &mut Tally) {
    for step in ["power", "power-after"] {
        let done = matches!(e.code(step), 0 | 1) && e.json(step).is_some();
        tally.check(done, &format!("{step} prints a run as JSON"), || e.ending(step));
    }
    let before = e.out("power");
    for text in ["C1", "C2", "C3", "124", "acpi-cpufreq"] {
        tally.check(before.contains(text), &format!("power names {text}"), || "it does not".into());
    }
    let after = e.out("power-after");
    let seen = !before.contains("powersave") && after.contains("powersave");
    tally.check(seen, "power sees the governor change on CPU 1", || "it does not".into());
}
