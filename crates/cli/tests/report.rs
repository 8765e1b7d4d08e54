//! `quietcore report`, `schema` and `completions`: what was measured, shown again.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use program::{own_cpu, quietcore, refuses, stderr, stdout};
use tempfile::TempDir;

/// A measured run in a directory of its own.
fn measured() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    let cpu = own_cpu();
    let args = ["jitter", "--cpus", cpu.as_str(), "--duration", "20ms", "-o"];
    stdout(quietcore(&args).arg(&file), 0);
    (dir, file)
}

fn report(file: &PathBuf) -> Command {
    let mut command = quietcore(&["report"]);
    command.arg(file);
    command
}

#[test]
fn every_format_can_be_made_from_the_file() {
    let (dir, file) = measured();
    let kept = fs::read_to_string(&file).unwrap();
    program::read(&kept);
    assert_eq!(stdout(report(&file).args(["--format", "json"]), 0), kept);
    assert!(stdout(&mut report(&file), 0).contains("Gaps of the spinning CPUs"));
    assert!(stdout(report(&file).args(["--format", "csv"]), 0).contains("# section: jitter_gap"));
    let page = dir.path().join("page.html");
    assert_eq!(stdout(report(&file).arg("-o").arg(&page), 0), "");
    assert!(fs::read_to_string(page).unwrap().contains("Gaps of the spinning CPUs"));
}

#[test]
fn what_cannot_be_shown_is_one_line_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    let name = file.to_str().unwrap();
    refuses(&mut report(&file), 2, &[name, "No such file"]);
    refuses(&mut report(&dir.path().to_owned()), 2, &[dir.path().to_str().unwrap(), "directory"]);
    let garbage = [
        (&b""[..], "not a run"),
        (b"\x7fELF\0\xff", "not a run"),
        (b"[]", "schema"),
        (br#"{"schema":1}"#, "missing field"),
        (br#"{"schema":999,"quietcore":"9.9.9"}"#, "9.9.9"),
    ];
    for (bytes, says) in garbage {
        fs::write(&file, bytes).unwrap();
        refuses(&mut report(&file), 2, &[name, says]);
    }
    let half = measured();
    let bytes = fs::read(&half.1).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    refuses(&mut report(&file), 2, &[name, "EOF"]);
}

#[test]
fn a_file_that_nests_without_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    fs::write(&file, "[".repeat(200_000)).unwrap();
    refuses(&mut report(&file), 2, &["recursion limit"]);
}

#[test]
fn stdout_that_is_full_is_an_error_and_a_reader_that_had_enough_is_none() {
    let (_dir, file) = measured();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = report(&file).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("No space left"));
    let mut child =
        report(&file).args(["--format", "html"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn colour_is_for_terminals_only() {
    let (_dir, file) = measured();
    assert!(!stdout(&mut report(&file), 0).contains('\x1b'));
}

#[test]
fn the_schema_is_printed_and_only_for_what_has_one() {
    let schema = stdout(&mut quietcore(&["schema", "run"]), 0);
    assert_eq!(schema, quietcore_report::schema());
    refuses(&mut quietcore(&["schema", "walk"]), 2, &["walk"]);
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&mut quietcore(&["completions", shell]), 0);
        for command in ["tour", "audit", "jitter", "exec", "report", "schema"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    refuses(&mut quietcore(&["completions", "tcsh"]), 2, &["tcsh"]);
}
