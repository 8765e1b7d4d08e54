//! Idle states and a frequency driver that answer, made of an ACPI table.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::lab::evidence::{Evidence, rows};
use crate::lab::scenario::{PARALLEL, RECORDING, Scenario, Step};
use crate::lab::tally::Tally;

/// What the audit must say of deep idle states, of a governor other than performance, and of a TSC
/// that stops in them.
const EXPECT: &[(&str, &str)] = &[
    ("cstate.driver", "pass"),
    ("cstate.exit-latency", "warn"),
    ("freq.governor", "warn"),
    ("freq.limit", "pass"),
    ("clock.source", "warn"),
    ("clock.tsc-stable", "warn"),
];

/// What it must say when CPU 1 is meant for latency, has the governor powersave and all its states.
const EXPECT_SLOW: &[(&str, &str)] =
    &[("cstate.exit-latency", "fail"), ("freq.governor", "fail"), ("freq.limit", "pass")];

/// What it must say of CPU 2, which has no C3 left, and of CPU 3, whose frequency is capped.
const EXPECT_CAPPED: &[(&str, &str)] = &[
    ("cstate.exit-latency", "fail"),
    ("freq.governor", "fail"),
    ("freq.limit", "warn"),
    ("clock.source", "fail"),
];

/// What it must say of CPU 2 when only C1 is left and the governor is performance. C1 halts, and what
/// a halt costs a guest no table tells.
const EXPECT_AWAKE: &[(&str, &str)] =
    &[("cstate.exit-latency", "unknown"), ("freq.governor", "pass"), ("freq.limit", "pass")];

pub const SCENARIO: Scenario = Scenario {
    name: "cstates",
    about: "ACPI idle states of 2, 10 and 124 us and acpi-cpufreq; power prints and sees changes",
    kernel: None,
    boot: "",
    // acpi-cpufreq only takes fixed-function idle registers and ports from a CPU of this make.
    cpu: "max,vendor=GenuineIntel,family=6,model=94",
    smp: "4",
    accel: PARALLEL,
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
    recording: Some(RECORDING),
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
        Step::new("slow", 60, "quietcore audit --cpus 1 --format json"),
        Step::new("capped", 60, "quietcore audit --cpus 2-3 --format json"),
        Step::new(
            "awake",
            60,
            "\
echo 1 >/sys/devices/system/cpu/cpu2/cpuidle/state2/disable
echo performance >/sys/devices/system/cpu/cpufreq/policy2/scaling_governor
quietcore audit --cpus 2 --format json
",
        ),
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
    for (step, expect) in
        [("slow", EXPECT_SLOW), ("capped", EXPECT_CAPPED), ("awake", EXPECT_AWAKE)]
    {
        tally.findings(step, &e.json(step).unwrap_or_default(), expect);
    }
    for step in ["power", "power-after"] {
        let done = matches!(e.code(step), 0 | 1) && e.json(step).is_some();
        tally.check(done, &format!("{step} prints a run as JSON"), || e.ending(step));
    }
    let before = e.json("power").unwrap_or_default();
    let after = e.json("power-after").unwrap_or_default();
    const STATES: &str = "power_idle_states";
    const CPUS: &str = "power_cpus";
    let names = json!(["POLL", "C1", "C2", "C3"]);
    let mut column = |name: &str, run: &Value, table: &str, of: &str, expected: Value| {
        let found = cells(run, table, of);
        tally.check(found == expected, &format!("{name}: {of} is {expected}"), || {
            format!("it is {found}")
        });
    };
    column("power", &before, STATES, "name", names);
    column("power", &before, STATES, "exit_latency_us", json!([0, 2, 10, 124]));
    column("power", &before, STATES, "disabled_on", json!(["", "", "", ""]));
    column("power-after", &after, STATES, "disabled_on", json!(["", "", "", "2"]));
    let four = |name: &str| json!([name, name, name, name]);
    column("power", &before, CPUS, "driver", four("acpi-cpufreq"));
    column("power", &before, CPUS, "governor", four("schedutil"));
    let changed = json!(["schedutil", "powersave", "schedutil", "schedutil"]);
    column("power-after", &after, CPUS, "governor", changed);
    let mhz = cells(&after, CPUS, "frequency_mhz");
    let of = |cpu: usize| mhz[cpu].as_f64();
    // powersave asks for the lowest step there is; what it is stands in the ACPI table.
    tally
        .check(of(1) == Some(800.0), "power-after: CPU 1 is asked for 800 MHz", || mhz.to_string());
    let capped = of(3).is_some_and(|mhz| mhz <= 2000.0);
    tally.check(capped, "power-after: CPU 3 is asked for no more than its cap", || mhz.to_string());
}

/// The cells of one column of a run's table, from top to bottom.
fn cells(run: &Value, table: &str, column: &str) -> Value {
    let cell = |row: BTreeMap<&str, &Value>| row.get(column).copied().cloned().unwrap_or_default();
    rows(run, table).into_iter().map(cell).collect()
}
