//! Small programs in C that wait to be watched, and say what they measured themselves.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{fs, process};

use crate::program::quietcore;

/// `go` waits until it may begin; `done` says a number and waits until it may end.
const HEAD: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static unsigned long long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void go(void) { char c; if (read(0, &c, 1) != 1) _exit(1); }
static void done(unsigned long long n) { char c; dprintf(1, "%llu\n", n); if (read(0, &c, 1) < 0) _exit(1); }
"#;

/// A program that was compiled.
pub struct Victim {
    _dir: tempfile::TempDir,
    program: PathBuf,
}

impl Victim {
    /// Compiles it with gcc.
    pub fn compile(source: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (file, program) = (dir.path().join("victim.c"), dir.path().join("victim"));
        fs::write(&file, format!("{HEAD}{source}")).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-pthread", "-fno-inline"])
            .args(flags)
            .arg("-o")
            .arg(&program)
            .arg(&file);
        assert!(gcc.status().unwrap().success());
        Self { _dir: dir, program }
    }
}

/// What a command printed of a victim that it watched from before the start until after the end,
/// and the number that the victim said.
pub fn watched(victim: &Victim, command: &str, args: &[&str]) -> (String, u64) {
    let mut child =
        Command::new(&victim.program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let head = [command, "--pid", &pid, "--duration", "10m", "--format", "json"];
    let mut watcher = quietcore(&[&head[..], args].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(watcher.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("attached"), "{line}");

    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"x").unwrap();
    let mut number = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut number).unwrap();
    interrupt(&watcher);
    let mut json = String::new();
    watcher.stdout.take().unwrap().read_to_string(&mut json).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(watcher.wait().unwrap().code(), Some(0), "{rest}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
    (json, number.trim().parse().unwrap())
}

fn interrupt(child: &process::Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}
