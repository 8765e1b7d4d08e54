//! A host isolated as it should be: the audit must see that, and see when the rest is done, too.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::lab::evidence::{Evidence, rows};
use crate::lab::scenario::{PARALLEL, Scenario, Step};
use crate::lab::tally::Tally;

/// What the audit must say of a correct boot line, before anything else was done.
const EXPECT: &[(&str, &str)] = &[
    ("isolation.isolcpus", "pass"),
    ("isolation.nohz-full", "pass"),
    ("isolation.rcu-nocbs", "pass"),
    ("isolation.consistent", "pass"),
    ("isolation.cpus-exist", "pass"),
    ("isolation.housekeeping", "pass"),
    ("boot.unknown-tokens", "pass"),
    ("boot.duplicate-tokens", "pass"),
    ("rcu.rcuo-placement", "pass"),
    ("sched.watchdog", "pass"),
    ("sched.workqueue-cpumask", "pass"),
    ("sched.systemd-cpuaffinity", "pass"),
    ("sched.tasks-on-isolated", "pass"),
    ("smt.isolated-siblings", "pass"),
    ("isolation.isolcpus-flags", "warn"),
];

/// All that may fail before anything was done, and why each is true.
const FAILING: &[&str] = &[
    // No daemon disciplines the clock of a guest without a network.
    "clock.sync",
    // isolcpus= keeps tasks away, not interrupts: the mask for new ones is 0-3,
    "irq.default-affinity",
    // and the kernel has sent some of the keyboard's and of the lab's own channel to CPUs 2-3.
    "irq.effective-affinity",
    // The console is ttyS0 and takes every level.
    "kernel.serial-console",
    // Debian's default is transparent_hugepage=always,
    "mem.thp",
    // which runs khugepaged.
    "mem.khugepaged",
];

/// What an audit says when the administrator was careful: the same checks, and these.
const EXPECT_TUNED: &[(&str, &str)] = &[
    ("irq.default-affinity", "pass"),
    ("irq.effective-affinity", "pass"),
    ("irq.managed", "pass"),
    ("kernel.serial-console", "pass"),
    ("mem.thp", "pass"),
    ("mem.khugepaged", "pass"),
    ("sched.kernel-threads", "pass"),
    ("sched.preempt-model", "pass"),
    ("sched.rt-throttling", "pass"),
    ("sched.workqueue-cpumask", "pass"),
    ("sched.workqueue-writeback", "pass"),
    ("sched.timer-migration", "pass"),
    ("tick.vmstat", "pass"),
    ("clock.sync", "waived"),
];

/// What an audit says that watched while a program span on CPU 2.
const EXPECT_BUSY: &[(&str, &str)] =
    &[("tick.busy-cpu", "pass"), ("irq.arriving", "pass"), ("sched.runnable", "pass")];

pub const SCENARIO: Scenario = Scenario {
    name: "isolated",
    about: "CPUs 2-3 isolated by a correct boot line; audit passes it, and all that is tuned then",
    kernel: None,
    // On a busy host the emulated clocks drift apart, the kernel's watchdog then calls the TSC
    // unstable, and with an unstable clock the tick stays on, nohz_full= or not.
    boot: "isolcpus=2,3 nohz_full=2,3 rcu_nocbs=2,3 tsc=reliable",
    // With QEMU's own CPU model the kernel distrusts the TSC, as quietcore then must.
    cpu: "max,vendor=GenuineIntel,family=6,model=94",
    smp: "4",
    accel: PARALLEL,
    qemu: &[],
    acpi: None,
    modules: &[],
    look: LOOK,
    premises,
    audit: "",
    expect: EXPECT,
    recording: Some(TUNED),
    steps: &[
        // CPU 1 is not isolated and spins beside it, to compare.
        Step::new("jitter", 60, "quietcore jitter --cpus 1-2 --duration 3s --format json"),
        Step::new("tune", 60, TUNE),
        Step::new("tuned", 60, AUDIT_TUNED),
        Step::new("busy", 60, AUDIT_BUSY),
    ],
    judge,
};

/// The recording of the tuned guest.
const TUNED: &str = "tuned.json";

/// All that can be set at run time for CPUs 2-3. Interrupts move when they next arrive, most of
/// these never do: taking their CPU offline moves them, too. That resets the affinity of kcompactd.
const TUNE: &str = "\
for file in /proc/irq/[0-9]*/smp_affinity_list; do
    # The timer and the cascade cannot be moved, and need not.
    echo 0-1 >$file 2>/dev/null
done
set -e
echo 3 >/proc/irq/default_smp_affinity
for cpu in 2 3; do
    echo 0 >/sys/devices/system/cpu/cpu$cpu/online
    echo 1 >/sys/devices/system/cpu/cpu$cpu/online
done
for thread in $(ps -o pid,comm | awk '$2 ~ /^(kswapd|kcompactd)/ { print $1 }'); do
    taskset -cp 0-1 $thread
done
for file in /sys/devices/virtual/workqueue/cpumask /sys/bus/workqueue/devices/*/cpumask; do
    echo 3 >$file
done
echo never >/sys/kernel/mm/transparent_hugepage/enabled
echo 0 >/sys/kernel/mm/transparent_hugepage/khugepaged/defrag
echo 128 >/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages
echo full >/sys/kernel/debug/sched/preempt
for file in /sys/devices/system/machinecheck/machinecheck*/ignore_ce; do echo 1 >$file; done
sysctl -w kernel.printk='4 4 1 7' kernel.sched_rt_runtime_us=-1 kernel.timer_migration=0 \\
    kernel.watchdog=0 vm.stat_interval=120 vm.compaction_proactiveness=0 \\
    net.ipv4.tcp_slow_start_after_idle=0 net.core.busy_poll=50 net.core.busy_read=50
";

/// Nothing can keep the time of a guest that reaches no clock, so that one failure is waived, as an
/// administrator would: with a reason, until tomorrow.
const AUDIT_TUNED: &str = "\
{
    echo '[[waiver]]'
    echo 'id = \"clock.sync\"'
    echo 'reason = \"this guest reaches no clock, and nobody compares its time stamps\"'
    echo \"expires = \\\"$(date -d @$(($(date +%s) + 86400)) +%Y-%m-%d)\\\"\"
} >/tmp/waivers.toml
quietcore audit --format json --waivers /tmp/waivers.toml --record /tmp/isolated.json
code=$?
cp /tmp/isolated.json /lab/ship/tuned.json && exit $code
";

/// An idle CPU proves nothing, so one is kept busy.
const AUDIT_BUSY: &str = "\
taskset -c 2 sh -c 'while :; do :; done' &
quietcore audit --format json --probe 4s --waivers /tmp/waivers.toml
code=$?
kill $!
exit $code
";

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
    tally.premise(e.code("tune") == 0, "all that is to be tuned takes it", || e.ending("tune"));
}

fn judge(e: &Evidence, tally: &mut Tally) {
    tally.failing("audit", &e.json("audit").unwrap_or_default(), &[""], FAILING);
    let tuned = e.json("tuned").unwrap_or_default();
    tally.failing("tuned", &tuned, &[""], &[]);
    tally.findings("tuned", &tuned, EXPECT_TUNED);
    let busy = e.json("busy").unwrap_or_default();
    tally.failing("busy", &busy, &[""], &[]);
    tally.findings("busy", &busy, EXPECT_BUSY);
    judge_jitter(e, tally);
}

fn judge_jitter(e: &Evidence, tally: &mut Tally) {
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
