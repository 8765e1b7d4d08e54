//! Whatever happens to quietcore, nothing of it stays in the kernel.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfoIter, ProgInfoIter};

/// The numbers that the kernel gave what a process has open, by the name of a line in its fdinfo.
fn opened(pid: u32, name: &str) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        numbers.extend(lines.filter_map(|number| number.trim().parse::<u32>().ok()));
    }
    numbers
}

#[test]
#[ignore = "needs root: cargo test -p quietcore-bpf --test killed -- --ignored"]
fn root_a_killed_recorder_leaves_nothing_attached() {
    // Cargo builds a package's examples with its tests.
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    let mut recorder = Command::new(folder.join("examples/attach"))
        .args(["all", "1000000", "sched,idle,irq"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(recorder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("attached_in_ns"), "{line}");
    let (programs, links) = (opened(recorder.id(), "prog_id"), opened(recorder.id(), "link_id"));
    assert!(programs.len() > 10 && links.len() > 10, "{programs:?} by {links:?}");
    let left = || {
        let there =
            ProgInfoIter::default().filter(|program| programs.contains(&program.id)).count();
        there + LinkInfoIter::default().filter(|link| links.contains(&link.id)).count()
    };
    assert_eq!(left(), programs.len() + links.len());

    recorder.kill().unwrap();
    recorder.wait().unwrap();
    // The kernel takes programs away after a grace period of RCU.
    let begin = Instant::now();
    while left() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(30), "{} are left", left());
        thread::sleep(Duration::from_millis(100));
    }
}
