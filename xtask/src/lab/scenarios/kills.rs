//! A guest in which quietcore is killed at every real write, and leaves nothing behind.
//!
//! Whether the host is as it was says `picture`, which shares no code with quietcore.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::lab::evidence::{Evidence, rows};
use crate::lab::scenario::{PARALLEL, Scenario, Step};
use crate::lab::tally::Tally;

/// The script, told which series to run and how many points of each.
macro_rules! kills {
    (every $every:literal: $all:literal) => {
        concat!(
            "every=",
            $every,
            " all='",
            $all,
            "'\n",
            include_str!("../../../../lab/guest/kills")
        )
    };
}

/// A plan of fewer knobs proves too little.
const KNOBS: usize = 25;

/// Kills after a point leave the host as kills at the next one do: these meet every state once.
const QUICK: &[&str] = &["apply:after", "rollback:after"];

/// All there are.
const ALL: &[&str] =
    &["apply:at", "apply:after", "rollback:at", "rollback:after", "again:at", "again:after"];

pub const SCENARIO: Scenario = Scenario {
    name: "kills",
    about: "apply and rollback killed at every tenth write; idle states, frequencies, two nodes, a network card",
    kernel: None,
    // What the mitigations cost an emulated CPU makes a guest three times as slow.
    boot: "tsc=reliable mitigations=off",
    cpu: "max,vendor=GenuineIntel,family=6,model=94",
    smp: "4,sockets=2,cores=1,threads=2",
    accel: PARALLEL,
    qemu: &[
        "-object",
        "memory-backend-ram,id=near,size=512M",
        "-object",
        "memory-backend-ram,id=far,size=512M",
        "-numa",
        "node,nodeid=0,cpus=0-1,memdev=near",
        "-numa",
        "node,nodeid=1,cpus=2-3,memdev=far",
        "-netdev",
        "user,id=net,restrict=on",
        "-device",
        "e1000e,netdev=net,romfile=",
    ],
    acpi: Some("cstates.asl"),
    modules: &["acpi_cpufreq", "cpufreq_powersave", "e1000e"],
    look: "\
cd /sys/devices/system/cpu
echo idle_driver=$(cat cpuidle/current_driver)
echo freq_driver=$(cat cpufreq/policy3/scaling_driver)
echo nodes=$(cat /sys/devices/system/node/online)
echo driver=$(basename $(readlink /sys/class/net/eth0/device/driver))
",
    premises,
    audit: "",
    expect: &[],
    recording: None,
    steps: &[
        WHOLE,
        SEEN,
        BACK,
        Step::new("kills", 3600, kills!(every 10: "apply:after rollback:after")),
    ],
    judge: |e, tally| judge(e, tally, QUICK),
};

/// The same with every series.
pub const LONG: Scenario = Scenario {
    name: "kills-long",
    about: "the same at every write, before and after each, and applied again after a kill",
    kernel: None,
    steps: &[
        WHOLE,
        SEEN,
        BACK,
        Step::new(
            "kills",
            4 * 3600,
            kills!(every 1: "apply:at apply:after rollback:at rollback:after again:at again:after"),
        ),
    ],
    judge: |e, tally| judge(e, tally, ALL),
    ..SCENARIO
};

/// Applies, after what makes the guest quicker and its kernel settle.
const WHOLE: Step = Step::new(
    "whole",
    60,
    "\
# A CPU spins in a state deeper than C1 of this guest: one is enough to have its switches changed.
for cpu in 0 1 2; do
    echo 1 | tee /sys/devices/system/cpu/cpu$cpu/cpuidle/state[23]/disable
done >/dev/null
# What this kernel has right by itself. Not kernel.bpf_stats_enabled: see IN_TURN in scenario.rs, and
# so many sites of the kernel's code as that has nothing else.
echo 1 >/sys/kernel/mm/ksm/run
echo 1 >/sys/kernel/rcu_expedited
echo 1 >/proc/sys/vm/zone_reclaim_mode
# Interrupts that no device raises need not be moved, too.
for irq in /proc/irq/[0-9]*; do
    grep -q \"^ *${irq##*/}:\" /proc/interrupts || echo 3 >$irq/smp_affinity
done
# The kernel derives min_free_kbytes anew when huge pages are switched, from the memory of that
# moment: what it made of it while booting it never makes again.
for word in never always; do
    echo $word >/sys/kernel/mm/transparent_hugepage/enabled
done
picture take /tmp/first
echo quietcore apply --profile trading --cpus 2,3 --runtime-only >/tmp/apply
$(cat /tmp/apply) --format json
",
);

const SEEN: Step = Step::new(
    "seen",
    60,
    "\
picture compare /tmp/first >/tmp/seen
echo places=$(grep -c -e ': was ' -e ': is new' /tmp/seen)
cat /tmp/seen
",
);

const BACK: Step = Step::new("back", 60, "quietcore rollback && picture compare /tmp/first");

fn premises(e: &Evidence, tally: &mut Tally) {
    for (key, expected) in [
        ("idle_driver", "acpi_idle"),
        ("freq_driver", "acpi-cpufreq"),
        ("nodes", "0-1"),
        ("driver", "e1000e"),
    ] {
        let value = e.value("look", key).unwrap_or_default();
        tally.premise(value == expected, &format!("{key} is {expected}"), || {
            format!("it is {value:?}")
        });
    }
}

fn judge(e: &Evidence, tally: &mut Tally, asked: &[&str]) {
    let run = e.json("whole").unwrap_or_default();
    let changed: Vec<_> = rows(&run, "apply").into_iter().filter(|row| !refused(row)).collect();
    let knobs: BTreeSet<_> = changed.iter().filter_map(|row| row.get("knob")?.as_str()).collect();
    let places: i64 = changed.iter().filter_map(|row| row.get("places")?.as_i64()).sum();
    let done = e.code("whole") == 0 && knobs.len() >= KNOBS;
    let what = format!("apply changes {places} places of {} knobs", knobs.len());
    tally.check(done, &what, || format!("{KNOBS} are needed; {}", e.ending("whole")));
    let seen = e.number("seen", "places").unwrap_or(0);
    // A row each at least: of its places some are threads of the step itself, which is over.
    let least = i64::try_from(changed.len()).unwrap_or(i64::MAX);
    let what = format!("the picture sees {seen} things changed");
    tally.check(least > 0 && seen >= least, &what, || e.out("seen"));
    tally.check(e.code("back") == 0, "rolled back unharmed the host is as it was", || {
        let lines = e.out("back");
        let differences = lines.lines().filter(|line| line.contains(": was ")).take(5);
        format!("{}; {}", e.ending("back"), differences.collect::<Vec<_>>().join("; "))
    });
    tally.check(e.code("kills") == 0, "every kill was tried", || e.ending("kills"));
    let out = e.out("kills");
    for one in asked {
        let (phase, mode) = one.split_once(':').unwrap_or_default();
        let series = Series::of(&out, phase, mode);
        tally.check(series.holds(), &format!("{}: {series}", words(phase, mode)), || {
            series.trouble.join("\n        ")
        });
    }
}

/// Whether the kernel refused what a row of `apply` is about.
fn refused(row: &BTreeMap<&str, &Value>) -> bool {
    row.get("now").and_then(|now| now.as_str()).is_none_or(|now| now.starts_with("refused"))
}

/// What a series does.
fn words(phase: &str, mode: &str) -> String {
    match phase {
        "rollback" => format!("rollback killed {mode} a point, rolled back again"),
        "again" => format!("apply killed {mode} a point, applied again, rolled back"),
        _ => format!("apply killed {mode} a point, rolled back"),
    }
}

/// What came of the kills of one phase and mode.
#[derive(Debug, Default)]
struct Series {
    /// How many points there are; `None` if the series did not come to its end.
    points: Option<usize>,
    tried: usize,
    identical: usize,
    /// Kills after which the rollback had something to write.
    restored: usize,
    /// Lines about what went wrong.
    trouble: Vec<String>,
}

impl Series {
    fn of(out: &str, phase: &str, mode: &str) -> Self {
        let mut series = Self::default();
        let mut in_trouble = false;
        for line in out.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["done", p, m, points] if (p, m) == (phase, mode) => {
                    series.points = points.parse().ok();
                }
                [p, m, _, restored, verdict, ..] if (p, m) == (phase, mode) => {
                    series.tried += 1;
                    series.identical += usize::from(verdict == "identical");
                    series.restored += usize::from(restored != "0");
                    in_trouble = verdict != "identical";
                }
                _ => in_trouble &= line.starts_with(' '),
            }
            if in_trouble {
                series.trouble.push(line.to_owned());
            }
        }
        series
    }

    /// A series without a kill that left something to take back proves nothing.
    fn holds(&self) -> bool {
        self.restored > 0 && self.points == Some(self.tried) && self.identical == self.tried
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tried, identical, restored, .. } = self;
        let different = tried - identical;
        match self.points {
            Some(points) => write!(f, "{points} kills")?,
            None => write!(f, "not finished")?,
        }
        write!(f, ", {identical} identical, {different} different, {restored} had to be put back")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "\
apply at 1 0 identical killed at 1 write /a
apply at 2 7 identical killed at 2 write /b
done apply at 2
apply after 1 3 different killed after 1 write /a
    sysctl /a: was 1, is 2
apply after 2 3 identical killed after 2 write /b
done apply after 2
rollback at 1 0 identical killed at 1 write /a
killer ended with 1 at rollback at 2
again at 1 0 identical killed at 1 write /a
done again at 1
done rollback after 0
";

    #[test]
    fn a_series_holds_if_it_ended_and_every_kill_was_taken_back() {
        let series = Series::of(OUT, "apply", "at");
        assert!(series.holds());
        let text = "2 kills, 2 identical, 0 different, 1 had to be put back";
        assert_eq!(series.to_string(), text);
    }

    #[test]
    fn a_difference_is_shown_with_its_lines() {
        let series = Series::of(OUT, "apply", "after");
        assert!(!series.holds());
        let differs = "apply after 1 3 different killed after 1 write /a";
        assert_eq!(series.trouble, [differs, "    sysctl /a: was 1, is 2"]);
    }

    #[test]
    fn a_series_that_was_cut_short_or_killed_nothing_does_not_hold() {
        for (phase, mode) in
            [("rollback", "at"), ("rollback", "after"), ("again", "at"), ("again", "after")]
        {
            assert!(!Series::of(OUT, phase, mode).holds(), "{phase} {mode}");
        }
    }
}
