//! What the recorder counts, beside the kernel's own accounting (`/proc/PID/task/TID/schedstat`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quietcore_bpf::{Settings, Timeline, Wait, Watch};
use quietcore_measure::{CpuSet, Nanos};
use quietcore_sys::clock::KernelClock;
use quietcore_sys::sched::{self, Class};

/// How long both count.
const SECONDS: f64 = 5.0;

/// Counts at the edges: a thread may be switched while its file is being read.
const EDGES: u64 = 4;

struct Busy(Vec<Child>);

impl Busy {
    /// Two that only compute and two that hand one another data, all on one CPU.
    fn start(cpus: &CpuSet) -> Self {
        let quiet = |command: &mut Command| command.stderr(Stdio::null()).spawn().unwrap();
        let hog =
            || quiet(Command::new("sh").args(["-c", "while :; do :; done"]).stdout(Stdio::null()));
        let mut yes = quiet(Command::new("yes").stdout(Stdio::piped()));
        let pipe = yes.stdout.take().unwrap();
        let cat = quiet(Command::new("cat").stdin(pipe).stdout(Stdio::null()));
        let all = Self(vec![hog(), hog(), yes, cat]);
        for pid in all.pids() {
            sched::place(pid as i32, cpus).unwrap();
        }
        all
    }

    fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Nanoseconds on a run queue, times that it got a CPU, and when that was read.
fn schedstat(pid: u32) -> (u64, u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap();
    let now = KernelClock::Monotonic.now();
    let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    (numbers[1], numbers[2], now)
}

fn on_run_queue(wait: &Wait) -> u64 {
    let since = match wait.flags.preempted {
        true => wait.out_ts,
        false => wait.wakeup_ts.unwrap_or(wait.in_ts),
    };
    wait.in_ts - since
}

#[test]
#[ignore = "needs root: cargo test -p quietcore-spike --test schedstat -- --ignored"]
fn root_waits_agree_with_the_kernels_own_accounting() {
    let cpu = sched::affinity(sched::CALLER).unwrap().highest().unwrap();
    let busy = Busy::start(&[cpu].into_iter().collect());
    // Half a million waits a second; a host may give whoever fetches them no CPU for a while.
    let settings = Settings {
        sets: Vec::new(),
        room: 1 << 26,
        ..Settings::new(Watch::Tasks(busy.pids()), Nanos(0))
    };
    let mut timeline = Timeline::start(&settings).unwrap();
    // Every wait is sent here: whoever fetches them must not be kept waiting itself.
    sched::set_class(sched::CALLER, Class::Fifo { priority: 50 }).unwrap();
    let mut waits = Vec::new();
    let mut fetch = |timeline: &mut Timeline, seconds: f64| {
        let until = KernelClock::Monotonic.now() + (seconds * 1e9) as u64;
        while KernelClock::Monotonic.now() < until {
            std::thread::sleep(Duration::from_millis(2));
            waits.extend(timeline.waits().unwrap());
        }
    };
    // After that each has been switched at least once, and the recorder knows it.
    fetch(&mut timeline, 0.5);
    let before: BTreeMap<_, _> = busy.pids().iter().map(|&pid| (pid, schedstat(pid))).collect();
    fetch(&mut timeline, SECONDS);
    let after: BTreeMap<_, _> = busy.pids().iter().map(|&pid| (pid, schedstat(pid))).collect();
    fetch(&mut timeline, 0.1);
    assert_eq!(timeline.counts().unwrap().dropped, 0);

    for (n, pid) in busy.pids().into_iter().enumerate() {
        let (delay_before, slices_before, from) = before[&pid];
        let (delay_after, slices_after, to) = after[&pid];
        let ours = || waits.iter().filter(|w| w.tid == pid && from < w.in_ts && w.in_ts <= to);
        let (count, slices) = (ours().count() as u64, slices_after - slices_before);
        let (queued, delay) = (ours().map(on_run_queue).sum::<u64>(), delay_after - delay_before);
        let ratio = queued as f64 / delay as f64;
        let name = ["hog", "hog", "yes", "cat"][n];
        println!(
            "{name}: {count} waits, {slices} timeslices; on the run queue {} by us, {} by the \
             kernel: {ratio:.4}",
            Nanos(queued),
            Nanos(delay)
        );
        assert!(slices > 0, "{name} never got the CPU");
        assert!(count.abs_diff(slices) <= slices / 1_000 + EDGES, "{name}");
        // The others' waits are so short that the scheduler's own path between the kernel's two
        // time stamps and ours is a good part of them.
        if name == "hog" {
            assert!((0.95..1.05).contains(&ratio), "{name}: {ratio}");
        }
    }
}
