//! Each knob on a host that needs it: its checks fail before and pass after, and it comes back.

use quietcore_host::{Intent, Scope, checks, knobs};
use quietcore_measure::Status;
use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use super::*;

/// CPUs of the well-tuned server that the kernel does not isolate, on the second node.
const CPUS: &str = "30-31,70-71";

const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq/policy#";
const CPU: &str = "/sys/devices/system/cpu/cpu#";
const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const UNCORE: &str = "/sys/devices/system/cpu/intel_uncore_frequency/package_01_die_00";
const NODE: &str = "/sys/devices/system/node/node1/hugepages";
const VM: &str = "/proc/sys/vm";
const KERNEL: &str = "/proc/sys/kernel";

/// A host that is well tuned but for these files; `#` stands for each of [`CPUS`].
fn host_with(files: &[(String, &str)]) -> Snapshot {
    let mut host = snapshot("two-socket");
    for (path, text) in files {
        for cpu in [30, 31, 70, 71] {
            put(&mut host, &path.replace('#', &cpu.to_string()), &format!("{text}\n"));
        }
    }
    host
}

/// A file, listed in its folder where that was listed.
fn put(host: &mut Snapshot, path: &str, text: &str) {
    host.set(&format!("read {path}"), json!(text));
    let mut child = path;
    while let Some((folder, name)) = child.rsplit_once('/') {
        let key = format!("list {folder}");
        if let Some(Value::Array(names)) = host.moments[0].get(&key).cloned() {
            if !names.contains(&json!(name)) {
                host.set(&key, names.into_iter().chain([json!(name)]).collect());
            }
        }
        child = folder;
    }
}

fn status(facts: &Facts, id: &str) -> Status {
    let cpus = CpuSet::parse_list(CPUS).unwrap();
    let scope = Scope { cpus, intent: Intent::Asked, pid: None };
    (checks::ALL.iter().find(|check| check.id == id).unwrap().judge)(facts, &scope).status()
}

/// Sets one knob on a host with these files, checks it, and takes it back.
#[track_caller]
fn mends(assignment: &str, files: &[(String, &str)]) {
    let host = host_with(files);
    let mut wish = Profile::default();
    wish.set(assignment).unwrap();
    let knob = knobs::named(assignment.split_once('=').unwrap().0).unwrap();
    let bench = Bench::new(host, |facts| cores(facts, CPUS));
    let before = bench.json();
    for check in knob.checks {
        assert_ne!(status(&bench.facts, check), Status::Pass, "{assignment}: {check} before");
    }
    let (bench, plan) = bench.apply(&wish);
    assert!(!open(&plan).is_empty(), "{assignment} changes nothing");
    assert_eq!(open(&bench.plan(&wish)), Vec::<String>::new(), "{assignment}");
    for check in knob.checks {
        assert_eq!(status(&bench.facts, check), Status::Pass, "{assignment}: {check} after");
    }
    let (bench, back) = bench.take_back();
    assert_eq!(all_restored(&back), Vec::<String>::new(), "{assignment}");
    assert_eq!(bench.json(), before, "{assignment}");
}

fn file(folder: &str, name: &str) -> String {
    format!("{folder}/{name}")
}

#[test]
fn frequency_knobs_make_their_checks_pass() {
    let min = file(CPUFREQ, "scaling_min_freq");
    let max = file(CPUFREQ, "scaling_max_freq");
    let range = [(min.clone(), "1000000"), (max.clone(), "2000000")];
    mends("max-frequency=max", &range);
    mends("max-frequency=2600", &range);
    mends("min-frequency=max", &range);
    mends("min-frequency=base", &range);
    mends("governor=performance", &[(file(CPUFREQ, "scaling_governor"), "powersave")]);
    let no_turbo = "/sys/devices/system/cpu/intel_pstate/no_turbo".to_owned();
    mends("turbo=off", &[(no_turbo, "0")]);
    mends("uncore-frequency=max", &[(file(UNCORE, "min_freq_khz"), "800000")]);
    let preference = file(CPUFREQ, "energy_performance_preference");
    let governor = (file(CPUFREQ, "scaling_governor"), "powersave");
    mends(
        "energy-performance-preference=performance",
        &[(preference, "balance_performance"), governor],
    );
    mends("energy-performance-bias=0", &[(file(CPU, "power/energy_perf_bias"), "6")]);
}

fn with_c6() -> Vec<(String, &'static str)> {
    let state = |name: &str| file(CPU, &format!("cpuidle/state2/{name}"));
    vec![(state("name"), "C6"), (state("latency"), "85"), (state("disable"), "0")]
}

#[test]
fn idle_knobs_make_their_checks_pass() {
    mends("c-state-latency=3", &with_c6());
    mends("c-state-latency=85", &with_c6());
    mends("c-state-qos=2", &with_c6());
    mends("c-state-qos=0", &with_c6());
}

#[test]
fn memory_knobs_make_their_checks_pass() {
    let always = (file(THP, "enabled"), "[always] madvise never");
    mends("transparent-hugepages=never", std::slice::from_ref(&always));
    let defrag = (file(THP, "defrag"), "[always] defer defer+madvise madvise never");
    mends("transparent-hugepages-defrag=defer+madvise", &[always.clone(), defrag]);
    mends("khugepaged=off", &[always, (file(THP, "khugepaged/defrag"), "1")]);
    let own = file(THP, "hugepages-64kB/enabled");
    mends("transparent-hugepages-sizes=never", &[(own, "[always] inherit madvise never")]);
    for (knob, size) in [("huge-pages-2m=64", "2048kB"), ("huge-pages-1g=2", "1048576kB")] {
        mends(knob, &[(file(NODE, &format!("hugepages-{size}/nr_hugepages")), "0")]);
    }
    mends("ksm=off", &[("/sys/kernel/mm/ksm/run".to_owned(), "1")]);
    mends("numa-balancing=off", &[(file(KERNEL, "numa_balancing"), "1")]);
    mends("compaction-proactiveness=0", &[(file(VM, "compaction_proactiveness"), "20")]);
    mends("zone-reclaim=off", &[(file(VM, "zone_reclaim_mode"), "1")]);
    let reserve =
        [(file(VM, "min_free_kbytes"), "67584"), (file(VM, "watermark_scale_factor"), "10")];
    mends("watermark-scale=50", &reserve);
    mends("dirty-limit=1024", &[(file(VM, "dirty_bytes"), "0"), (file(VM, "dirty_ratio"), "20")]);
}

#[test]
fn scheduler_and_network_knobs_make_their_checks_pass() {
    let on = [
        (file(KERNEL, "watchdog"), "1"),
        (file(KERNEL, "soft_watchdog"), "1"),
        (file(KERNEL, "nmi_watchdog"), "1"),
        (file(KERNEL, "watchdog_cpumask"), "0-79"),
    ];
    mends("watchdog=housekeeping", &on);
    mends("watchdog=off", &on);
    mends("nmi-watchdog=off", &on);
    mends("timer-migration=off", &[(file(KERNEL, "timer_migration"), "1")]);
    mends("sched-rt-runtime=-1", &[(file(KERNEL, "sched_rt_runtime_us"), "950000")]);
    let release = (file(KERNEL, "osrelease"), "6.12.1");
    let server = "/sys/kernel/debug/sched/fair_server/cpu#/runtime".to_owned();
    mends("fair-server=0", &[release, (server, "50000000")]);
    mends("rcu-expedited=off", &[("/sys/kernel/rcu_expedited".to_owned(), "1")]);
    mends("bpf-stats=off", &[(file(KERNEL, "bpf_stats_enabled"), "1")]);
    let poll = "/sys/devices/system/machinecheck/machinecheck#";
    mends("mce-poll=0", &[(file(poll, "check_interval"), "300"), (file(poll, "ignore_ce"), "0")]);
    mends("stat-interval=120", &[(file(VM, "stat_interval"), "1")]);
    mends("busy-poll=50", &[("/proc/sys/net/core/busy_poll".to_owned(), "0")]);
    mends("busy-read=50", &[("/proc/sys/net/core/busy_read".to_owned(), "0")]);
    let slow_start = "/proc/sys/net/ipv4/tcp_slow_start_after_idle".to_owned();
    mends("tcp-slow-start-after-idle=off", &[(slow_start, "1")]);
}

#[test]
fn the_autogroups_are_switched_off_where_threads_share_a_cpu() {
    let mut host = host_with(&[(file(KERNEL, "sched_autogroup_enabled"), "1")]);
    let bench = Bench::new(host.clone(), |facts| cores(facts, CPUS));
    assert_eq!(
        open(&bench.plan(&profile(&[("sched-autogroup", Setting::Word("off".into()))]))).len(),
        1
    );
    host.set(&format!("read {KERNEL}/sched_autogroup_enabled"), Value::Null);
    let bench = Bench::new(host, |facts| cores(facts, CPUS));
    assert!(
        bench
            .plan(&profile(&[("sched-autogroup", Setting::Word("off".into()))]))
            .changes()
            .is_empty()
    );
}
