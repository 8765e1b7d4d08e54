//! Two runs side by side, as CI runs it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::str::{contains, starts_with};
use serde_json::{Value, json};
use tempfile::TempDir;

use quietcore_measure::{Distribution, Hist, HistConfig, Section};

fn quietcore(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("quietcore").unwrap();
    command.args(args);
    command
}

/// The audit of the made server, as it is or with other CPUs meant for latency.
fn audited(folder: &TempDir, name: &str, more: &[&str]) -> PathBuf {
    let server =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/hosts/two-socket/host.json");
    let path = folder.path().join(name);
    let args = ["audit", "--root", server.to_str().unwrap(), "-o", path.to_str().unwrap(), "-q"];
    quietcore(&[&args[..], more].concat()).assert().stdout("");
    path
}

fn compared(a: &Path, b: &Path) -> (Option<i32>, Value) {
    let args = ["compare", a.to_str().unwrap(), b.to_str().unwrap(), "--format", "json"];
    let output = quietcore(&args).output().unwrap();
    let run = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code(), run)
}

/// The run of a file with something else in it.
fn changed(path: &Path, to: &Path, change: impl FnOnce(&mut Value)) {
    let mut run: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut run);
    fs::write(to, run.to_string()).unwrap();
}

#[test]
fn what_got_worse_fails_and_what_got_better_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let good = audited(&folder, "good.json", &[]);
    let bad = audited(&folder, "bad.json", &["--cpus", "0"]);
    let (code, run) = compared(&good, &bad);
    assert_eq!(code, Some(1));
    let rows = run["sections"][0]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["what"] == "audit irq.effective-affinity").unwrap();
    assert_eq!((&row["a"], &row["b"]), (&json!("pass"), &json!("fail")));
    assert_eq!(row["verdict"], "worse");
    assert_eq!(compared(&bad, &good).0, Some(0));
    let (code, run) = compared(&good, &good);
    assert_eq!((code, &run["sections"][0]["rows"]), (Some(0), &json!([])));
}

#[test]
fn distributions_are_compared_beyond_chance() {
    let folder = tempfile::tempdir().unwrap();
    let base = audited(&folder, "base.json", &[]);
    let with = |name: &str, from: u64| {
        let mut hist = Hist::new(HistConfig::default());
        (from..from + 10_000).for_each(|value| hist.record(value));
        let section = Section::Distribution(Distribution::of("gap", "ns", &[("cpu", "2")], &hist));
        let path = folder.path().join(name);
        changed(&base, &path, |run| run["sections"] = json!([section]));
        path
    };
    let (quick, slow) = (with("quick.json", 1_000), with("slow.json", 50_000));
    let (code, run) = compared(&quick, &slow);
    assert_eq!(code, Some(1));
    let row = &run["sections"][0]["rows"][0];
    assert_eq!((&row["what"], &row["verdict"]), (&json!("gap{cpu=2} ns p50"), &json!("worse")));
    assert!(row["ci95_pct"][0].as_f64().unwrap() > 0.0);
    assert_eq!(compared(&slow, &quick).0, Some(0));
    assert_eq!(compared(&slow, &slow).0, Some(0));
}

#[test]
fn a_disturbed_run_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let good = audited(&folder, "good.json", &[]);
    let disturbed = folder.path().join("disturbed.json");
    changed(&good, &disturbed, |run| {
        run["validity"] = json!({"verdict": "disturbed", "notes": ["steal"], "lost_events": 2});
    });
    let (code, run) = compared(&good, &disturbed);
    assert_eq!(code, Some(0));
    assert_eq!(run["validity"]["verdict"], "disturbed");
    let note = run["validity"]["notes"][0].as_str().unwrap();
    assert!(note.contains("disturbed.json is disturbed: steal"), "{note}");
}

#[test]
fn what_cannot_be_compared_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let good = audited(&folder, "good.json", &[]);
    let path = |name: &str| folder.path().join(name);
    let whole = fs::read(&good).unwrap();
    fs::write(path("truncated.json"), &whole[..whole.len() / 2]).unwrap();
    fs::write(path("garbage.json"), "\u{7f}ELF").unwrap();
    changed(&good, &path("newer.json"), |run| run["schema"] = json!(99));
    changed(&good, &path("older.json"), |run| run["schema"] = json!(0));
    changed(&good, &path("empty.json"), |run| run["sections"] = json!([]));
    for (name, part) in [
        ("truncated.json", "not a run"),
        ("garbage.json", "not a run"),
        ("newer.json", "schema 99"),
        ("older.json", "schema 0"),
        ("empty.json", "nothing in common"),
        ("gone.json", "No such file"),
    ] {
        let other = path(name);
        let (good, other) = (good.to_str().unwrap(), other.to_str().unwrap());
        for args in [["compare", good, other], ["compare", other, good]] {
            let assert = quietcore(&args).assert().code(2).stdout("");
            let assert = assert.stderr(starts_with("quietcore: ")).stderr(contains(other));
            let assert = assert.stderr(contains(part));
            let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
    }
}
