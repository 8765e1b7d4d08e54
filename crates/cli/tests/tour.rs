//! `quietcore tour`: one page and the run it was made from.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use program::{own_cpu, quietcore, refuses, stderr};

/// Sections of every tour, before those of what can be measured.
const ALWAYS: [&str; 2] = ["taxonomy", "audit"];

fn tour(dir: &Path, args: &[&str]) -> Command {
    let cpu = own_cpu();
    let mut command = quietcore(&["tour", "--cpus", cpu.as_str(), "--duration", "50ms"]);
    command.args(args).current_dir(dir);
    command
}

/// Runs it; its exit code is that of the findings, which are the host's.
fn shown(command: &mut Command, dir: &Path) -> (String, serde_json::Value) {
    let output = command.output().unwrap();
    let run = program::read(&fs::read_to_string(dir.join("run.json")).unwrap());
    let findings = run["sections"].as_array().unwrap().iter().find(|s| s["type"] == "findings");
    let failed = findings.unwrap()["counts"]["fail"].as_u64().unwrap() > 0;
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{}", stderr(&output));
    (String::from_utf8(output.stdout).unwrap(), run)
}

#[test]
fn it_leaves_a_page_and_the_run_it_was_made_from() {
    let dir = tempfile::tempdir().unwrap();
    let (text, run) = shown(&mut tour(dir.path(), &["--quiet"]), dir.path());
    let sections = program::sections(&run);
    assert_eq!(sections[..2], ALWAYS);
    for name in ["plan", "jitter", "jitter_gaps", "wake", "wake_lateness"] {
        assert!(sections.contains(&name), "{name} is missing: {sections:?}");
    }
    assert!(text.contains("What can stand in a latency tail"), "{text}");
    let page = fs::read_to_string(dir.path().join("quietcore-report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for far in ["http://", "https://", "@import", "url("] {
        assert!(!page.contains(far), "{far}");
    }
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["quietcore-report.html", "run.json"]);
}

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test tour -- --ignored"]
fn root_it_says_what_the_gaps_were_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let (_, run) = shown(&mut tour(dir.path(), &["--quiet"]), dir.path());
    let sections = run["sections"].as_array().unwrap();
    let named = |name: &str| sections.iter().find(|s| s["name"] == name).unwrap();
    let spikes = named("jitter_explained")["spikes"].as_array().unwrap();
    assert!(!spikes.is_empty());
    for spike in spikes {
        let lengths = spike["segments"].as_array().unwrap().iter();
        let sum: u64 = lengths.map(|segment| segment["len_ns"].as_u64().unwrap()).sum();
        assert_eq!(spike["len_ns"], sum, "{spike}");
    }
    let gaps: u64 = named("jitter")["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[2].as_u64().unwrap())
        .sum();
    let covered = named("jitter_coverage")["rows"].as_array().unwrap().iter();
    assert_eq!(covered.map(|row| row[2].as_u64().unwrap()).sum::<u64>(), gaps);
}

#[test]
#[ignore = "needs root (to give it up): cargo test -p quietcore-cli --test tour -- --ignored"]
fn root_without_the_right_it_measures_the_gaps_and_says_that_their_causes_are_unknown() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mut tour = tour(dir.path(), &["--quiet"]);
    let (_, run) = shown(tour.uid(65534).gid(65534), dir.path());
    let sections = program::sections(&run);
    assert!(
        sections.contains(&"jitter") && !sections.contains(&"jitter_explained"),
        "{sections:?}"
    );
    let notes = run["validity"]["notes"].to_string();
    assert!(notes.contains("what the gaps were made of is not known"), "{notes}");
}

#[test]
fn what_it_cannot_do_is_one_line_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    // An hour: this ends only if nothing is measured.
    let long = |args: &[&str]| {
        let mut command = quietcore(&["tour", "--duration", "1h"]);
        command.args(args).current_dir(dir.path());
        command
    };
    refuses(&mut long(&["--cpus", "8000"]), 2, &["CPU 8000 is not online"]);
    refuses(&mut long(&["--html", "/no/such/dir/x"]), 2, &["/no/such/dir/x"]);
    refuses(&mut long(&["--json", "/no/such/dir/x"]), 2, &["/no/such/dir/x"]);
    refuses(&mut long(&["--json", "x", "--html", "x"]), 2, &["--html", "--json", "x"]);
    refuses(quietcore(&["tour", "--duration", "0"]).current_dir(dir.path()), 2, &["--duration"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
#[ignore = "needs root (it becomes another user): cargo test -p quietcore-cli --test tour -- --ignored"]
fn root_without_privileges_it_shows_what_it_can_and_passes_nothing_unseen() {
    let (place, program) = program::for_everybody();
    let dir = place.path().join("results");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(65_534), Some(65_534)).unwrap();
    let cpu = own_cpu();
    let mut command = Command::new(program);
    command.args(["tour", "--quiet", "--duration", "50ms", "--cpus", cpu.as_str()]);
    command.current_dir(&dir).uid(65_534).gid(65_534);
    let (_, run) = shown(&mut command, &dir);
    let sections = program::sections(&run);
    assert_eq!(sections[..2], ALWAYS);
    assert!(sections.contains(&"jitter") && sections.contains(&"wake"), "{sections:?}");
}
