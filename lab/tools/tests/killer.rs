//! The killer finds every write of a program that is known, and stops it there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Writes three files by itself, one of them by a child, and says something.
const SCRIPT: &str = "echo one >a.tmp; mv a.tmp a; echo two >>b; echo said; echo three >c";

/// What it does, in this order: a part of each kill point's line, and the files that there are
/// before it happens.
const STEPS: &[(&str, &[&str])] = &[
    ("openat DIR/a.tmp", &[]),
    ("write DIR/a.tmp", &["a.tmp="]),
    ("fork a child", &["a.tmp=one\n"]),
    ("execve /", &["a.tmp=one\n"]),
    ("rename", &["a.tmp=one\n"]),
    ("openat DIR/b", &["a=one\n"]),
    ("write DIR/b", &["a=one\n", "b="]),
    ("openat DIR/c", &["a=one\n", "b=two\n"]),
    ("write DIR/c", &["a=one\n", "b=two\n", "c="]),
];

/// What there is when the script has ended.
const DONE: &[&str] = &["a=one\n", "b=two\n", "c=three\n"];

fn killer(dir: &Path, args: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_killer"));
    command.current_dir(dir).args(args).arg("--").args(program).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The folder's files as `name=content`, sorted.
fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<String> = entries
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            format!("{name}={}", fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn every_write_of_a_script_is_counted_with_its_target() {
    let dir = TempDir::new().unwrap();
    let output = killer(dir.path(), &["count"], &["sh", "-c", SCRIPT]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output).replace(dir.path().to_str().unwrap(), "DIR");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), STEPS.len(), "{text}");
    for (n, (line, (part, _))) in lines.iter().zip(STEPS).enumerate() {
        assert!(line.starts_with(&format!("{} ", n + 1)) && line.contains(part), "{line}: {part}");
    }
    assert!(String::from_utf8_lossy(&output.stderr).contains("said"));
    assert_eq!(files(dir.path()), DONE);
}

#[test]
fn a_kill_at_a_point_leaves_what_was_there_before_it() {
    for (n, (part, before)) in STEPS.iter().enumerate() {
        let dir = TempDir::new().unwrap();
        let number = (n + 1).to_string();
        // With the whole tree, for a child that goes on would race with the look at its files.
        let output = killer(dir.path(), &["at", &number, "--tree"], &["sh", "-c", SCRIPT]);
        assert_eq!(output.status.code(), Some(0), "{part}");
        assert!(stdout(&output).starts_with(&format!("killed at {number} ")), "{part}");
        assert_eq!(files(dir.path()), *before, "{part}");
    }
}

#[test]
fn a_kill_after_a_point_leaves_what_was_there_before_the_next() {
    for (n, (part, _)) in STEPS.iter().enumerate() {
        if part.contains("fork") {
            // What the child has done by the time that the call returns, nobody can say.
            continue;
        }
        let dir = TempDir::new().unwrap();
        let number = (n + 1).to_string();
        let args = ["at", &number, "--after", "--tree"];
        let output = killer(dir.path(), &args, &["sh", "-c", SCRIPT]);
        assert_eq!(output.status.code(), Some(0), "{part}");
        assert!(stdout(&output).starts_with(&format!("killed after {number} ")), "{part}");
        let then = STEPS.get(n + 1).map_or(DONE, |(_, before)| before);
        assert_eq!(files(dir.path()), then, "{part}");
    }
}

#[test]
fn a_program_that_ends_before_the_point_is_said_to() {
    let dir = TempDir::new().unwrap();
    let output = killer(dir.path(), &["at", "3"], &["sh", "-c", "echo one >a; exit 7"]);
    assert_eq!(output.status.code(), Some(3));
    let text = stdout(&output);
    assert!(text.contains("not reached 3") && text.contains("exit code 7"), "{text}");
}

#[test]
fn a_child_is_let_live_unless_the_tree_is_killed() {
    // The first point makes the child, which waits for its parent to be gone.
    let script = "(while [ -e /proc/$$/exe ]; do sleep 0.01; done; echo on >child) & echo x >a";
    for (tree, lives) in [(false, true), (true, false)] {
        let dir = TempDir::new().unwrap();
        let mut args = vec!["at", "1", "--after"];
        if tree {
            args.push("--tree");
        }
        let output = killer(dir.path(), &args, &["sh", "-c", script]);
        assert!(stdout(&output).starts_with("killed after 1 "), "{}", stdout(&output));
        assert_eq!(appears(&dir.path().join("child"), lives), lives);
        assert!(!dir.path().join("a").exists());
    }
}

/// Whether a file is there in the end; one that is not expected gets a moment to appear.
fn appears(path: &Path, expected: bool) -> bool {
    let limit = Duration::from_millis(if expected { 20_000 } else { 200 });
    let begin = Instant::now();
    while !path.exists() && begin.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(10));
    }
    path.exists()
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let dir = TempDir::new().unwrap();
    let output = killer(dir.path(), &["count"], &["./absent"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("absent"));
}
