//! The audit as people and CI run it: exit codes, one-line errors, recordings, waivers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, starts_with};
use serde_json::Value;

const NO_PROCESS: &str = "4194305"; // one above the largest pid_max

fn audit(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("quietcore").unwrap();
    command.arg("audit").args(args);
    command
}

fn host(name: &str) -> String {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/hosts");
    hosts.join(name).join("host.json").to_str().unwrap().to_owned()
}

fn server() -> String {
    host("two-socket")
}

fn findings(json: &[u8]) -> Vec<Value> {
    let run: Value = serde_json::from_slice(json).unwrap();
    let section = run["sections"].as_array().unwrap().iter().find(|s| s["type"] == "findings");
    section.unwrap()["findings"].as_array().unwrap().clone()
}

/// The findings, whatever the exit code says of them.
fn judged(args: &[&str]) -> Vec<Value> {
    let output = audit(args).args(["--format", "json", "--quiet"]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    findings(&output.stdout)
}

fn one_line(text: &str) -> bool {
    text.ends_with('\n') && text.lines().count() == 1
}

/// An error of an operation: exit code 2, nothing on stdout, one line that says these things.
fn fails_saying(args: &[&str], parts: &[&str]) {
    let assert = audit(args).assert().code(2).stdout("").stderr(starts_with("quietcore: "));
    let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(one_line(&stderr), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "`{part}` is not in: {stderr}");
    }
}

#[test]
fn a_host_without_failures_is_clean_and_one_with_failures_is_not() {
    audit(&["--root", &server()]).assert().code(0).stdout(contains("0 fail"));
    // Judged as if the CPU that takes the interrupts were meant for latency.
    audit(&["--root", &server(), "--cpus", "0"])
        .assert()
        .code(1)
        .stdout(contains("irq.effective-affinity"));
}

#[test]
fn cpus_that_are_not_there_are_named_with_those_that_are() {
    fails_saying(&["--root", &server(), "--cpus", "2,99"], &["CPU 99", "0-79"]);
    fails_saying(&["--root", &host("laptop"), "--cpus", "8"], &["CPU 8", "0-7"]);
}

#[test]
fn what_is_no_list_and_no_duration_is_a_usage_error() {
    for (args, part) in [
        (["--cpus", ""], "names no CPU"),
        (["--cpus", "3-1"], "runs backwards"),
        (["--cpus", "two"], "`two`"),
        (["--cpus", "99999999"], "beyond any kernel's limit"),
        (["--probe", "0s"], "above zero"),
        (["--probe", "soon"], "soon"),
        (["--pid", "4294967296"], "--pid"),
        (["--pid", "engine"], "engine"),
    ] {
        audit(&args).assert().code(2).stdout("").stderr(contains(part));
    }
    audit(&["--record", "x", "--root", "y"])
        .assert()
        .code(2)
        .stderr(contains("cannot be used with"));
}

#[test]
fn an_offline_cpu_is_no_cpu_to_judge() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.json");
    let text = fs::read_to_string(server()).unwrap();
    let key = "\"read /sys/devices/system/cpu/online\": \"0-79\\n\"";
    assert!(text.contains(key));
    fs::write(&path, text.replace(key, &key.replace("0-79", "0-3,5-79"))).unwrap();
    fails_saying(
        &["--root", path.to_str().unwrap(), "--cpus", "4"],
        &["CPU 4 is not online", "0-3,5-79"],
    );
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    fails_saying(&["--pid", NO_PROCESS], &[NO_PROCESS, "no such process"]);
    fails_saying(&["--root", &server(), "--pid", "77"], &["--pid 77", "recorded without it"]);
    audit(&["--root", &server(), "--pid", "4711"]).assert().code(0);
}

#[test]
fn what_is_no_snapshot_is_named_with_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let whole = fs::read(server()).unwrap();
    fs::write(path("truncated"), &whole[..whole.len() / 2]).unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("garbage"), b"\x7fELF\xff\xfe\x00").unwrap();
    fs::write(path("other.json"), r#"{"schema": 1, "sections": []}"#).unwrap();
    let newer = r#"{"quietcore_snapshot": 99, "name": "x", "moments": [{}]}"#;
    fs::write(path("newer.json"), newer).unwrap();
    for name in ["truncated", "empty", "other.json"] {
        fails_saying(&["--root", &path(name)], &[&path(name), "not a snapshot made by"]);
    }
    fails_saying(&["--root", &path("garbage")], &[&path("garbage")]);
    fails_saying(&["--root", &path("newer.json")], &[&path("newer.json"), "format 99"]);
    fails_saying(&["--root", &path("gone")], &[&path("gone"), "No such file"]);
    fs::create_dir(path("folder")).unwrap();
    fails_saying(&["--root", &path("folder")], &[&path("folder"), "proc/"]);
}

#[test]
fn garbage_in_every_answer_gives_findings_and_no_pass() {
    let mut host: Value = serde_json::from_slice(&fs::read(server()).unwrap()).unwrap();
    let moments = host["moments"].as_array_mut().unwrap();
    moments.truncate(1);
    for answer in moments[0].as_object_mut().unwrap().values_mut() {
        *answer = serde_json::json!({"error": "denied"});
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.json");
    fs::write(&path, host.to_string()).unwrap();
    let passed: Vec<Value> = judged(&["--root", path.to_str().unwrap()])
        .into_iter()
        .filter(|finding| finding["status"] == "pass")
        .map(|finding| finding["id"].clone())
        .collect();
    assert!(passed.is_empty(), "nothing was readable, and yet these pass: {passed:?}");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    fails_saying(&["-o", "/no/such/folder/run.json"], &["/no/such/folder/run.json"]);
    fails_saying(&["--record", "/no/such/folder/host.json"], &["/no/such/folder/host.json"]);
}

#[test]
fn waivers_hold_until_their_last_day() {
    let args = ["--root", &server(), "--cpus", "0"];
    let failed: Vec<Value> =
        judged(&args).into_iter().filter(|finding| finding["status"] == "fail").collect();
    assert!(!failed.is_empty());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("waivers.toml");
    let with = |expires: &str| {
        let entry = |finding: &Value| {
            format!(
                "[[waiver]]\nid = {}\nreason = \"known\"\nexpires = \"{expires}\"\n",
                finding["id"]
            )
        };
        fs::write(&path, failed.iter().map(entry).collect::<String>()).unwrap();
        let mut command = audit(&args);
        command.args(["--waivers", path.to_str().unwrap(), "--format", "json"]);
        command.output().unwrap()
    };
    let (valid, expired) = (with("9999-12-31"), with("2020-01-01"));
    assert_eq!(valid.status.code(), Some(0));
    let waived = findings(&valid.stdout).iter().filter(|f| f["status"] == "waived").count();
    assert_eq!(waived, failed.len());
    assert_eq!(expired.status.code(), Some(1));
    assert!(findings(&expired.stdout).iter().all(|f| f["status"] != "waived"));
}

#[test]
fn waivers_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("waivers.toml");
    let name = path.to_str().unwrap();
    let args = ["--root", &server(), "--waivers", name];
    fails_saying(&args, &[name, "No such file"]);
    for (text, part) in [
        ("[[waiver]]\nid = \"no.such\"\nreason = \"x\"\nexpires = \"2099-01-01\"", "no such check"),
        (
            "[[waiver]]\nid = \"irq.effective-affinity\"\nreason = \"\"\nexpires = \"2099-01-01\"",
            "reason",
        ),
        (
            "[[waiver]]\nid = \"irq.effective-affinity\"\nreason = \"x\"\nexpires = \"soon\"",
            "YYYY-MM-DD",
        ),
    ] {
        fs::write(&path, text).unwrap();
        fails_saying(&args, &[name, part]);
    }
    fs::write(&path, "not toml").unwrap();
    audit(&args).assert().code(2).stdout("").stderr(contains(name));
}

/// A program to examine; it sleeps, so its numbers hold still. Ended when dropped.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn start() -> Self {
        Self(Process::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_recording_of_this_host_is_judged_as_the_host_was() {
    let sleeper = Sleeper::start();
    let folder = tempfile::tempdir().unwrap();
    let recorded = |extra: &[&str], name: &str| {
        let path: PathBuf = folder.path().join(name);
        let path = path.to_str().unwrap();
        let live = judged(&[extra, &["--record", path]].concat());
        let offline: Vec<&str> =
            extra.iter().copied().filter(|arg| !matches!(*arg, "--probe" | "300ms")).collect();
        assert_eq!(judged(&[&offline[..], &["--root", path]].concat()), live, "{extra:?}");
        assert!(live.len() > 2);
    };
    recorded(&[], "plain.json");
    recorded(&["--cpus", "0"], "asked.json");
    recorded(&["--pid", &sleeper.pid(), "--probe", "300ms"], "probed.json");
}

#[test]
fn a_process_is_examined_beside_the_host() {
    let sleeper = Sleeper::start();
    let ids = |args: &[&str]| -> Vec<String> {
        judged(args).iter().map(|f| f["id"].as_str().unwrap().to_owned()).collect()
    };
    let with = ids(&["--pid", &sleeper.pid()]);
    assert!(with.iter().any(|id| id == "proc.traced"));
    assert!(!ids(&[]).iter().any(|id| id.starts_with("proc.")));
}

#[test]
fn every_format_is_written() {
    let root = server();
    for (format, start) in [("text", ""), ("json", "{"), ("csv", ""), ("html", "<!")] {
        let args = ["--root", &root, "--cpus", "0", "--format", format];
        let begins = predicate::str::is_empty().not().and(starts_with(start));
        audit(&args).assert().code(1).stdout(begins);
    }
}
