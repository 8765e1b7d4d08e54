//! `quietcore jitter` as people call it. How long anything takes decides nothing here.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use program::{own_cpu, quietcore, refuses, run, sections, stdout};

/// `jitter` on a CPU that is there.
fn jitter(args: &[&str]) -> Command {
    let cpu = own_cpu();
    quietcore(&[&["jitter", "--cpus", cpu.as_str()], args].concat())
}

#[test]
fn a_spinning_run_holds_what_its_page_promises() {
    let run = run(&mut jitter(&["--duration", "50ms", "--format", "json"]), 0);
    let expected = [
        "jitter",
        "jitter_loop",
        "jitter_gap",
        "jitter_gaps",
        "jitter_surroundings",
        "jitter_interrupts",
        "jitter_clock",
    ];
    assert_eq!(sections(&run), expected);
    assert_eq!(run["sections"][0]["rows"][0][0].to_string(), own_cpu());
}

#[test]
fn a_waking_run_holds_what_its_page_promises() {
    let args = ["--duration", "50ms", "--wake", "1ms", "--format", "json"];
    let run = run(&mut jitter(&args), 0);
    let expected =
        ["wake", "wake_lateness", "wake_lateness_from", "wake_surroundings", "wake_interrupts"];
    assert_eq!(sections(&run), expected);
}

#[test]
fn the_article_s_loop_says_its_page_faults() {
    let run = run(&mut jitter(&["--loop", "article", "--format", "json"]), 0);
    assert_eq!(sections(&run), ["jitter_article", "jitter_clock"]);
    let columns = run["sections"][0]["columns"].as_array().unwrap();
    let faults = columns.iter().position(|name| name == "page_faults").unwrap();
    assert!(run["sections"][0]["rows"][0][faults].as_u64().unwrap() > 1_000, "{run}");
}

#[test]
fn raw_gaps_are_lines_of_cpu_start_and_length_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gaps");
    // So long that every gap of so short a run is kept.
    let args = ["--duration", "50ms", "--threshold", "1us", "--format", "json", "--raw"];
    let run = run(jitter(&args).arg(&file), 0);
    let text = fs::read_to_string(&file).unwrap();
    let mut before = 0;
    for line in text.lines() {
        let numbers: Vec<u64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
        let [cpu, start, length] = numbers[..] else { panic!("{line}") };
        assert_eq!(cpu.to_string(), own_cpu());
        assert!(start >= before && length >= 1_000, "{line}");
        before = start + length;
    }
    let columns = run["sections"][0]["columns"].as_array().unwrap();
    let gaps = columns.iter().position(|name| name == "gaps").unwrap();
    let counted = run["sections"][0]["rows"][0][gaps].as_u64().unwrap();
    assert_eq!(text.lines().count() as u64, counted);
}

#[test]
fn a_page_is_one_file_that_loads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("page.html");
    let shown = stdout(jitter(&["--duration", "50ms", "-o"]).arg(&file), 0);
    assert_eq!(shown, "");
    assert_eq!(names(dir.path()), ["page.html"]);
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"));
    for far in ["http://", "https://", "src=\"/", "@import", "url("] {
        assert!(!page.contains(far), "{far}");
    }
}

#[test]
fn cpus_that_cannot_be_measured_are_named() {
    let jitter = |cpus: &str| quietcore(&["jitter", "--duration", "50ms", "--cpus", cpus]);
    refuses(&mut jitter("8000"), 2, &["CPU 8000 is not online", "online: 0"]);
    refuses(&mut jitter(""), 2, &["--cpus", "names no CPU", "0,2-5"]);
    refuses(&mut jitter("two"), 2, &["--cpus", "`two`", "0,2-5"]);
    refuses(&mut jitter("0-99999999"), 2, &["99999999", "8192"]);
    let all = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let everywhere = ["--fifo", "1"];
    refuses(jitter(all.trim()).args(everywhere), 2, &["SCHED_FIFO", all.trim(), "leave one out"]);
}

#[test]
fn a_list_of_thousands_is_refused_in_a_line_that_can_be_read() {
    let output = quietcore(&["jitter", "--cpus", "0-8191:1/2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stderr.len() < 300, "{}", output.stderr.len());
}

#[test]
fn what_would_measure_nothing_is_refused() {
    refuses(&mut jitter(&["--duration", "0"]), 2, &["--duration", "a number and a unit"]);
    refuses(&mut jitter(&["--duration", "0s"]), 2, &["--duration", "above zero"]);
    refuses(&mut jitter(&["--duration", "50ms", "--wake", "1s"]), 2, &["--wake", "50.0 ms"]);
    refuses(&mut jitter(&["--duration", "50ms", "--wake", "20us"]), 2, &["50 µs to 10 s"]);
    let threshold = ["--duration", "50ms", "--threshold", "1s"];
    refuses(&mut jitter(&threshold), 2, &["--threshold", "50.0 ms"]);
    refuses(&mut jitter(&["--loop", "article", "--raw", "/dev/null"]), 2, &["--raw"]);
    refuses(&mut jitter(&["--wake", "1ms", "--raw", "/dev/null"]), 2, &["--wake", "--raw"]);
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_anything_is_measured() {
    // An hour: these tests end only if nothing is measured.
    for flag in ["-o", "--raw"] {
        refuses(&mut jitter(&["--duration", "1h", flag, "/no/such/dir/x"]), 2, &["/no/such/dir/x"]);
        refuses(&mut jitter(&["--duration", "1h", flag, "/"]), 2, &["cannot write to /:"]);
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let short = ["--duration", "50ms", "--quiet"];
    refuses(jitter(&short).args(["-o", "/dev/full"]), 2, &["/dev/full", "No space left"]);
    let output = jitter(&short).args(["--raw", "/dev/full", "--threshold", "100ns"]).output();
    let output = output.unwrap();
    // The other result is not lost with it.
    assert!(!output.stdout.is_empty());
}

/// Starts a measurement that would take an hour, and waits until it is ready to be interrupted.
fn start(args: &[&str]) -> Child {
    let mut command = jitter(&[&["--duration", "1h"], args].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !catches_interrupts(child.id()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

fn catches_interrupts(pid: u32) -> bool {
    const SIGINT: u32 = 2;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (SIGINT - 1) & 1 == 1
}

fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[test]
fn ctrl_c_ends_a_measurement_that_is_still_shown() {
    for name in ["INT", "TERM"] {
        let child = start(&["--format", "json"]);
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}");
        let run = program::read(std::str::from_utf8(&output.stdout).unwrap());
        assert_eq!(run["validity"]["verdict"], "incomplete");
        assert!(run["validity"]["notes"].to_string().contains("stopped before its time"));
    }
}

#[test]
fn a_measurement_that_is_killed_leaves_the_old_files_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let (result, raw) = (dir.path().join("run.json"), dir.path().join("gaps"));
    fs::write(&result, "old").unwrap();
    fs::write(&raw, "old").unwrap();
    let mut child = start(&["-o", result.to_str().unwrap(), "--raw", raw.to_str().unwrap()]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(dir.path()), ["gaps", "run.json"]);
    assert_eq!(fs::read_to_string(&result).unwrap(), "old");
    assert_eq!(fs::read_to_string(&raw).unwrap(), "old");
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
#[ignore = "needs root (it becomes another user): cargo test -p quietcore-cli --test jitter -- --ignored"]
fn root_without_privileges_it_measures_but_not_in_real_time() {
    let (_place, program) = program::for_everybody();
    let jitter = |args: &[&str]| {
        let mut command = Command::new(&program);
        let cpu = own_cpu();
        command.args(["jitter", "--duration", "50ms", "--cpus", cpu.as_str()]).args(args);
        command.uid(65_534).gid(65_534);
        command
    };
    let run = run(&mut jitter(&["--format", "json"]), 0);
    assert!(sections(&run).contains(&"jitter_gap"));
    refuses(&mut jitter(&["--fifo", "1"]), 3, &["SCHED_FIFO 1", "CAP_SYS_NICE", "RLIMIT_RTPRIO"]);
}

#[test]
#[ignore = "needs root (CAP_SYS_NICE): cargo test -p quietcore-cli --test jitter -- --ignored"]
fn root_it_measures_in_real_time() {
    let args = ["--duration", "50ms", "--wake", "1ms", "--fifo", "1", "--format", "json"];
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    match online.trim() {
        "0" => refuses(&mut jitter(&args), 2, &["leave one out"]),
        _ => assert!(sections(&run(&mut jitter(&args), 0)).contains(&"wake")),
    }
}
