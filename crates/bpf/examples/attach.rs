//! Attaches the recorder and says what came of it: what `cargo xtask bench` and the lab's guests run.
//!
//! `attach WATCH THRESHOLD_US SETS [SECONDS]`: WATCH is `all`, a pid, or `cpu:LIST`; SETS as
//! `sched,idle,irq`. Prints a line of JSON when attached and the counts at the end, which comes after
//! SECONDS, with a line for each wait before it, or when standard input is closed.

#![allow(clippy::unwrap_used, reason = "a tool for tests: a panic says where")]

use std::io::Read;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use quietcore_bpf::{Set, Settings, Timeline, Watch};
use quietcore_measure::{CpuSet, Nanos};
use serde_json::json;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [watch, threshold, sets, limit @ ..] = &args[..] else {
        eprintln!("attach WATCH THRESHOLD_US SETS [SECONDS]");
        std::process::exit(2);
    };
    let watch = match watch.split_once(':') {
        Some(("cpu", list)) => Watch::Cpus(CpuSet::parse_list(list).unwrap()),
        _ if watch == "all" => Watch::All,
        _ => Watch::Process(watch.parse().unwrap()),
    };
    let mut settings = Settings::new(watch, Nanos(threshold.parse::<u64>().unwrap() * 1_000));
    settings.sets = sets.split(',').map(set).collect();

    let mut timeline = match Timeline::start(&settings) {
        Ok(timeline) => timeline,
        Err(error) => {
            eprintln!("attach: {error}");
            std::process::exit(3);
        }
    };
    println!(
        "{}",
        json!({"attached_in_ns": timeline.attached_in().0, "health": timeline.health()})
    );
    let (sender, closed) = channel::<()>();
    let begin = Instant::now();
    match limit.first() {
        Some(_) => std::mem::forget(sender),
        None => {
            std::thread::spawn(move || {
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                drop(sender);
            });
        }
    }
    let limit = limit.first().map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    loop {
        let ended = closed.recv_timeout(Duration::from_millis(20));
        let waits = timeline.waits().unwrap();
        if limit.is_some() {
            waits.iter().for_each(|wait| println!("{}", json!({ "wait": wait })));
        }
        let over = limit.is_some_and(|limit| begin.elapsed() >= limit);
        if over || ended != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    println!("{}", json!({ "counts": timeline.counts().unwrap() }));
}

fn set(name: &str) -> Set {
    *Set::ALL.iter().find(|set| set.name() == name).unwrap()
}
