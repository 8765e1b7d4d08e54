//! Threads: a few of the kernel's, a few daemons, and on the server the engine under audit.

use quietcore_measure::CpuSet;
use quietcore_sys::host::{Snapshot, Task};
use serde_json::json;

use super::{LAPTOP_CPUS, SERVER_CPUS, SERVER_ISOLATED};

pub fn server(host: &mut Snapshot) {
    let all = CpuSet::first(SERVER_CPUS);
    let isolated = CpuSet::parse_list(SERVER_ISOLATED).unwrap();
    let keep = all.minus(&isolated);
    let mut tasks = vec![
        user(1, 1, "systemd", &keep, 0),
        kernel(2, "kthreadd", &keep, false),
        kernel(15, "rcuog/0", &keep, false),
        kernel(16, "rcuop/2", &keep, false),
    ];
    for cpu in all.iter() {
        let own = CpuSet::from_iter([cpu]);
        tasks.push(kernel(1000 + cpu as u32, &format!("ksoftirqd/{cpu}"), &own, true));
    }
    // One thread per CPU, real-time where it spins.
    tasks.push(user(4711, 4711, "engine", &keep, 0));
    for (tid, name, cpu) in [(4712, "btc", 4), (4713, "eth", 5)] {
        let own = CpuSet::from_iter([cpu]);
        tasks.push(Task { policy: 1, rt_priority: 50, ..user(4711, tid, name, &own, cpu) });
    }
    // A virtual machine and a Go program, all but one thread of each on the housekeeping CPUs.
    for (pid, names, cpu) in [
        (4720, ["java", "VM Thread", "ZWorker#0", "ZDriver", "C2 CompilerThre", "strategy"], 6),
        (4730, ["gateway", "gateway", "gateway", "gateway", "gateway", "gateway"], 7),
    ] {
        for (tid, name) in (pid..).zip(&names[..5]) {
            tasks.push(user(pid, tid, name, &keep, 20));
        }
        tasks.push(user(pid, pid + 5, names[5], &CpuSet::from_iter([cpu]), cpu));
    }
    put(host, tasks);
}

pub fn laptop(host: &mut Snapshot) {
    let all = CpuSet::first(LAPTOP_CPUS);
    let tasks = vec![
        user(1, 1, "systemd", &all, 0),
        kernel(2, "kthreadd", &all, false),
        user(900, 900, "gnome-shell", &all, 3),
    ];
    put(host, tasks);
}

fn put(host: &mut Snapshot, tasks: Vec<Task>) {
    for pid in [1, 4711, 4720, 4730] {
        let own: Vec<&Task> = tasks.iter().filter(|t| t.pid == pid).collect();
        if !own.is_empty() {
            host.set(&format!("threads {pid}"), json!(own));
        }
    }
    host.set("tasks", json!(tasks));
}

fn user(pid: u32, tid: u32, name: &str, affinity: &CpuSet, cpu: usize) -> Task {
    Task {
        pid,
        tid,
        name: name.to_owned(),
        state: 'S',
        cpu,
        ticks: 100,
        affinity: affinity.clone(),
        ..Task::default()
    }
}

fn kernel(tid: u32, name: &str, affinity: &CpuSet, bound: bool) -> Task {
    let cpu = affinity.lowest().unwrap_or_default();
    Task { kernel: true, bound, ..user(tid, tid, name, affinity, cpu) }
}
