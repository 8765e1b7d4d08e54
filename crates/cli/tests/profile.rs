//! `quietcore profile` as people call it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;
mod victim;

use std::process::Command;

use program::{quietcore, read, refuses, run, sections};
use victim::{Victim, watched};

/// Spends twice as many turns in one function as in another.
const SPINNER: &str = r#"
static volatile unsigned long sink;
static void turns(unsigned long n) { while (n--) sink++; }
static void spins_twice(unsigned long n) { turns(2 * n); asm volatile(""); }
static void spins_once(unsigned long n) { turns(n); asm volatile(""); }
int main(void) {
    go();
    unsigned long long from = now();
    while (now() - from < 1500000000ull) { spins_twice(1000000); spins_once(1000000); }
    done(now() - from);
}
"#;

fn samples_of(run: &serde_json::Value, part: &str) -> u64 {
    let flame = run["sections"].as_array().unwrap().iter().find(|s| s["type"] == "flame").unwrap();
    let stacks = flame["stacks"].as_object().unwrap();
    stacks.iter().filter(|(s, _)| s.contains(part)).map(|(_, n)| n.as_u64().unwrap()).sum()
}

#[test]
fn root_a_thread_that_spins_is_found_where_it_spins() {
    let victim = Victim::compile(SPINNER, &["-O0"]);
    let (json, _) = watched(&victim, "profile", &["--frequency", "999"]);
    let run = read(&json);
    assert_eq!(sections(&run), ["profile_functions", "profile", "profile_counts"]);
    let (twice, once) = (samples_of(&run, ";spins_twice;"), samples_of(&run, ";spins_once;"));
    let all = samples_of(&run, "");
    assert!(once > 0 && twice > once, "{twice} and {once} of {all}");
    assert!(twice + once > all / 2, "{twice} and {once} of {all}");
}

#[test]
fn root_go_s_own_tool_reads_the_profile() {
    let victim = Victim::compile(SPINNER, &["-O0"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cpu.pb.gz");
    watched(&victim, "profile", &["--pprof", file.to_str().unwrap()]);
    let go = ["go", "/usr/local/go/bin/go"].into_iter().find(|go| {
        Command::new(go).arg("version").output().is_ok_and(|output| output.status.success())
    });
    let mut pprof = Command::new(go.expect("Go's own tool is the oracle"));
    let output = pprof.args(["tool", "pprof", "-top", "-cum"]).arg(&file).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("Type: profile") && said.contains("spins_twice"), "{said}");
}

#[test]
fn root_many_samples_are_warned_of() {
    let args =
        ["profile", "--all", "--duration", "50ms", "--frequency", "4000", "--format", "json"];
    let run = run(&mut quietcore(&args), 0);
    assert_eq!(run["validity"]["verdict"], "disturbed");
    assert!(run["validity"]["notes"][0].as_str().unwrap().contains("20000 µs of every second"));
}

#[test]
fn root_without_a_pmu_it_says_so() {
    let args = ["profile", "--all", "--duration", "50ms", "--event", "cycles"];
    let output = quietcore(&args).output().unwrap();
    // There may be one where this runs.
    if output.status.code() != Some(0) {
        refuses(&mut quietcore(&args), 3, &["no PMU here", "cpu-clock"]);
    }
}

#[test]
fn cpus_that_are_not_there_cannot_be_sampled() {
    refuses(&mut quietcore(&["profile", "--all", "--cpu", "4095"]), 2, &["4095", "not online"]);
}
