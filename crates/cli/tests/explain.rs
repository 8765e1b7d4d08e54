//! `quietcore explain`, on programs that are made and started here.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use program::{quietcore, refuses, run, sections};
use serde_json::Value;

/// A program of `victims/` that runs until it is dropped.
struct Victim {
    child: Child,
    _dir: tempfile::TempDir,
}

impl Victim {
    fn start(name: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(name, flags, dir.path());
        let mut child = Command::new(program).arg("120").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, _dir: dir }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn compile(name: &str, flags: &[&str], dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/victims").join(name);
    let program = dir.join("victim");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).args(flags);
    assert!(gcc.status().unwrap().success(), "{gcc:?}");
    program
}

fn section<'a>(run: &'a Value, name: &str) -> &'a Value {
    let all = run["sections"].as_array().unwrap();
    all.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no section {name}: {run}"))
}

fn rows(section: &Value) -> Vec<&Vec<Value>> {
    section["rows"].as_array().unwrap().iter().map(|row| row.as_array().unwrap()).collect()
}

#[test]
fn what_it_needs_is_said_by_the_command_line() {
    refuses(&mut quietcore(&["explain"]), 2, &["required"]);
    refuses(&mut quietcore(&["explain", "--pid", "1"]), 2, &["required"]);
    refuses(&mut quietcore(&["explain", "--tid", "1", "--pid", "1"]), 2, &["cannot be used"]);
}

#[test]
fn a_name_that_is_not_there_is_answered_by_those_near_it() {
    let victim = Victim::start("arena.c", &[]);
    let args = ["explain", "--pid", &victim.pid(), "--function", "proces_packet"];
    refuses(&mut quietcore(&args), 2, &["no function `proces_packet`", "process_packet"]);
    let args = ["explain", "--pid", &victim.pid(), "--function", "_packet"];
    refuses(&mut quietcore(&args), 2, &["not one function", "process_packet", "reject_packet"]);
}

#[test]
fn a_stripped_program_says_so() {
    let victim = Victim::start("arena.c", &["-s"]);
    let args = ["explain", "--pid", &victim.pid(), "--function", "process_packet"];
    refuses(&mut quietcore(&args), 2, &["stripped", "--binary"]);
}

#[test]
fn a_go_program_is_refused_with_the_reason() {
    let victim = Victim::start("gopher.c", &[]);
    let args = ["explain", "--pid", &victim.pid(), "--function", "handle"];
    refuses(&mut quietcore(&args), 3, &["is a Go program", "return address"]);
}

#[test]
fn a_process_that_publishes_nothing_says_so() {
    let pid = std::process::id().to_string();
    let args = ["explain", "--pid", &pid, "--spans"];
    refuses(&mut quietcore(&args), 2, &["quietcore-live", "No such file"]);
}

/// The case of the article: a rare error path allocates while another thread holds the allocator's
/// lock. Nothing but the function's name is given.
#[test]
#[ignore = "needs root: cargo test -p quietcore-cli --test explain -- --ignored root_"]
fn root_the_allocators_lock_its_holder_and_the_path_that_allocated_are_named() {
    let victim = Victim::start("arena.c", &["-fno-omit-frame-pointer", "-fno-shrink-wrap"]);
    let pid = victim.pid();
    // The machine may be slow enough for the probes to weigh more than they should.
    let args = ["explain", "--pid", &pid, "--function", "process_packet", "--force"];
    let run = run(quietcore(&args).args(["--duration", "8s", "--format", "json"]), 0);
    let names = sections(&run);
    assert!(names.starts_with(&["span", "explain", "locks"]), "{names:?}");
    assert!(section(&run, "span")["count"].as_u64().unwrap() > 1_000);

    // Others may have preempted it, on a busy machine; of what it did itself the lock comes first.
    let parts = rows(section(&run, "explain"));
    let lock = parts.iter().find(|row| row[0] == "lock").unwrap();
    assert!(lock[1].as_str().unwrap().starts_with("housekeeper (tid "), "{lock:?}");
    assert!(lock[2].as_f64().unwrap() > 0.0, "{lock:?}");

    let locks = rows(section(&run, "locks"));
    let first = locks[0];
    assert!(first[3].as_str().unwrap().starts_with("housekeeper (tid "), "{first:?}");
    assert!(first[4].as_str().unwrap().contains("housekeeper > "), "{first:?}");
    let waited = first[5].as_str().unwrap();
    assert!(waited.starts_with("process_packet > reject_packet > "), "{waited}");
    assert!(waited.contains("malloc"), "{waited}");

    let removed_by = rows(section(&run, "remedies"));
    let lock = removed_by.iter().find(|row| row[0] == "lock").unwrap();
    assert!(lock[1].as_str().unwrap().contains("proc.allocator"), "{lock:?}");

    // The slowest add up, each.
    for spike in section(&run, "slowest")["spikes"].as_array().unwrap() {
        let parts = spike["segments"].as_array().unwrap();
        let sum: u64 = parts.iter().map(|part| part["len_ns"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), spike["len_ns"].as_u64());
    }
}
