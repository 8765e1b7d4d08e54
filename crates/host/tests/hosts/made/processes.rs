//! The processes that an audit may name on the server, each tuned well: the engine (native, two
//! threads that spin), a strategy in Java and a gateway in Go (one thread each on a CPU of its own).

use quietcore_sys::host::{Snapshot, Task, ThreadCounters};
use serde_json::{Value, json};

use super::{file, later};

/// Process, threads that spin, threads that wait for work on a CPU of their own.
const PROCESSES: [(u32, &[u32], &[u32]); 3] =
    [(4711, &[4712, 4713], &[]), (4720, &[], &[4725]), (4730, &[], &[4735])];

/// Ticks of 1/100 s between the readings of the probe.
const PROBED: u64 = 200;

pub fn server(host: &mut Snapshot) {
    file(host, "/proc/sys/kernel/sched_rt_runtime_us", "-1\n");
    file(host, "/proc/sys/kernel/sched_rt_period_us", "1000000\n");
    for (pid, spinning, placed) in PROCESSES {
        threads(host, pid, spinning, placed);
        common(host, pid);
    }
    engine(host);
    java(host);
    go(host);
    spin(host);
}

fn threads(host: &mut Snapshot, pid: u32, spinning: &[u32], placed: &[u32]) {
    let key = format!("thread counters {pid}");
    let tasks: Vec<Task> =
        serde_json::from_value(host.moments[0][&format!("threads {pid}")].clone()).unwrap();
    let counters = |after: u64| -> Value {
        let one = |task: &Task| {
            let spins = spinning.contains(&task.tid);
            let quick = spins || placed.contains(&task.tid);
            ThreadCounters {
                tid: task.tid,
                started_ticks: 8_000_000,
                voluntary: if spins { 2 } else { 4_000 + after },
                involuntary: if quick { 1 } else { 300 },
                ran_ns: Some(1_000_000_000 + if spins { after * 10_000_000 } else { after }),
                waited_ns: Some(20_000),
                slices: Some(4_001),
                minor_faults: 900,
                major_faults: 0,
                timer_slack_ns: Some(if quick { 1 } else { 50_000 }),
            }
        };
        json!(tasks.iter().map(one).collect::<Vec<_>>())
    };
    host.set(&key, counters(0));
    later(host, &key, counters(PROBED));
}

/// What the three have in common: all memory locked and on node 0, no limit, no timer.
fn common(host: &mut Snapshot, pid: u32) {
    status(host, pid, 48_000, 0);
    file(
        host,
        &format!("/proc/{pid}/limits"),
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max cpu time              unlimited            unlimited            seconds   \n\
         Max locked memory         unlimited            unlimited            bytes     \n",
    );
    file(host, &format!("/proc/{pid}/timers"), "");
    host.set(&format!("node memory {pid}"), json!({"0": 48_000, "1": 100}));
    host.set(&format!("memory kinds {pid}"), json!({"Rss": 48_000, "AnonHugePages": 0}));
    host.set(
        &format!("cpu limits {pid}"),
        json!([limit("engines.slice/engine.service"), limit("engines.slice")]),
    );
    host.set(&format!("environment {pid}"), json!({}));
    host.set(&format!("arguments {pid}"), json!(["engine"]));
    host.set(&format!("jvm {pid}"), Value::Null);
}

fn status(host: &mut Snapshot, pid: u32, resident_kib: u64, hugetlb_kib: u64) {
    file(
        host,
        &format!("/proc/{pid}/status"),
        format!(
            "Pid:\t{pid}\nTracerPid:\t0\nVmLck:\t{resident_kib} kB\nVmRSS:\t{resident_kib} kB\n\
             VmPTE:\t200 kB\nVmSwap:\t0 kB\nHugetlbPages:\t{hugetlb_kib} kB\n"
        ),
    );
}

fn limit(group: &str) -> Value {
    json!({"group": format!("/sys/fs/cgroup/{group}"), "quota_us": null, "period_us": 100_000,
           "throttled": 0, "throttled_us": 0})
}

fn engine(host: &mut Snapshot) {
    status(host, 4711, 300_000, 2_097_152);
    host.set("runtime 4711", json!("native"));
    host.set("libraries 4711", json!(["libc.so.6", "libjemalloc.so.2", "libm.so.6"]));
    host.set("environment 4711", json!({"LD_PRELOAD": "libjemalloc.so.2"}));
}

fn java(host: &mut Snapshot) {
    let options = [
        "-XX:+UseZGC",
        "-Xms4g",
        "-Xmx4g",
        "-XX:+AlwaysPreTouch",
        "-XX:+UseLargePages",
        "-XX:ConcGCThreads=4",
        "-XX:+DisableExplicitGC",
    ];
    status(host, 4720, 500_000, 4_194_304);
    host.set("runtime 4720", json!("jvm"));
    host.set("libraries 4720", json!(["libc.so.6", "libjvm.so"]));
    host.set("arguments 4720", json!([&["java"][..], &options].concat()));
    host.set(
        "jvm 4720",
        json!({
            "version": "21.0.7", "options": options,
            "collectors": [{"name": "ZGC minor collection pauses", "runs": 90, "took_ns": 1_800_000}],
            "safepoints": 120, "stopped_ns": 4_800_000, "filesystem": "tmpfs"
        }),
    );
}

fn go(host: &mut Snapshot) {
    host.set("runtime 4730", json!("go"));
    host.set("libraries 4730", json!([]));
    host.set("environment 4730", json!({"GOGC": "1000", "GOMEMLIMIT": "8GiB"}));
}

/// The engine's threads spin while probed.
fn spin(host: &mut Snapshot) {
    let mut tasks: Vec<Task> = serde_json::from_value(host.moments[0]["tasks"].clone()).unwrap();
    let spinning = |task: &&mut Task| PROCESSES[0].1.contains(&task.tid);
    tasks.iter_mut().filter(spinning).for_each(|task| task.ticks += PROBED);
    later(host, "tasks", json!(tasks));
}
