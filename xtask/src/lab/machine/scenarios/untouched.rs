//! Debian as it is installed: what quietcore must say of a machine that nobody tuned.

use anyhow::Result;

use super::Scenario;
use crate::lab::machine::vm::Machine;
use crate::lab::tally::Tally;

pub const SCENARIO: Scenario = Scenario {
    name: "untouched",
    about: "Debian as installed: irqbalance and tuned run, nothing is isolated, the audit says so",
    acpi: Some("cstates.asl"),
    after: None,
    play,
};

/// What the audit must say of CPUs 2-3 that are meant for latency.
const EXPECT: &[(&str, &str)] = &[
    ("irq.irqbalance", "fail"),
    ("service.tuned", "warn"),
    ("isolation.isolcpus", "fail"),
    ("isolation.nohz-full", "fail"),
    ("isolation.rcu-nocbs", "fail"),
    ("cstate.driver", "pass"),
    ("cstate.exit-latency", "fail"),
    // The governor is tuned's, and goes back to schedutil when tuned is stopped.
    ("freq.governor", "pass"),
];

/// What is not quietcore's to say.
const LOOK: &str = "\
for unit in irqbalance tuned dbus; do echo $unit=$(systemctl is-active $unit); done
echo failed=$(systemctl list-units --failed --plain --no-legend | wc -l)
cd /sys/devices/system/cpu
echo isolated=$(cat isolated)
echo nohz_full=$(cat nohz_full)
echo idle_driver=$(cat cpuidle/current_driver)
echo latencies=$(cat cpu0/cpuidle/state*/latency)
echo freq_driver=$(cat cpufreq/policy0/scaling_driver)
echo governor=$(cat cpufreq/policy0/scaling_governor)
echo profile=$(cat /etc/tuned/active_profile)
";

fn play(m: &mut Machine, tally: &mut Tally) -> Result<()> {
    let look = m.run("look", LOOK)?;
    for (key, expected) in [
        ("irqbalance", "active"),
        ("tuned", "active"),
        ("dbus", "active"),
        ("failed", "0"),
        ("isolated", ""),
        ("idle_driver", "acpi_idle"),
        ("latencies", "0 2 10 124"),
        ("freq_driver", "acpi-cpufreq"),
        ("governor", "performance"),
        ("profile", "virtual-guest"),
    ] {
        let value = look.value(key);
        tally.premise(value == expected, &format!("{key} is {expected:?}"), || {
            format!("it is {value:?}")
        });
    }
    let audit = m.run("audit", "quietcore audit --cpus 2,3 --format json")?;
    tally.check(audit.code == 1, "audit --cpus 2,3 has findings", || audit.ending());
    tally.findings("audit", &audit.json(), EXPECT);
    Ok(())
}
