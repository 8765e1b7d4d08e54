//! `quietcore selftest` as people call it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use program::{quietcore, read, refuses, sections};

#[test]
fn what_is_no_cause_no_cpu_or_no_time_is_refused() {
    let selftest = |args: &[&str]| quietcore(&[&["selftest"], args].concat());
    refuses(&mut selftest(&["--only", "gremlins"]), 2, &["gremlins"]);
    refuses(&mut selftest(&["--only", "tick,gremlins"]), 2, &["gremlins"]);
    refuses(&mut selftest(&["--times", "0"]), 2, &["--times"]);
    refuses(&mut selftest(&["--duration", "0s"]), 2, &["--duration"]);
    refuses(&mut selftest(&["--cpu", "0-1"]), 2, &["--cpu", "name one CPU"]);
    refuses(&mut selftest(&["--cpu", "8000"]), 2, &["8000", "not online"]);
}

#[test]
fn an_injector_that_is_asked_for_by_a_wrong_name_is_refused() {
    refuses(&mut quietcore(&["inject", "gremlins", "0", "1s"]), 2, &["gremlins"]);
}

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test selftest -- --ignored"]
fn root_locks_and_real_time_threads_are_named() {
    let only = ["selftest", "--only", "futex,fifo", "--duration", "1s", "--format", "json"];
    let output = quietcore(&only).output().unwrap();
    let run = read(&String::from_utf8(output.stdout).unwrap());
    // A hypervisor may take the CPU in the middle of a cause, and is then named in its place. It says how
    // much it took; where it took nothing, one in a hundred may be named wrongly.
    let is_disturbed = run["validity"]["verdict"] == "disturbed";
    assert!(is_disturbed || output.status.code() == Some(0), "{run:#}");
    assert_eq!(sections(&run)[..2], ["selftest_matrix", "selftest"]);
    let rows = run["sections"][1]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let [felt, right, explained] = [1, 4, 6].map(|at| row[at].as_f64().unwrap());
        assert!(felt > 0.0 && right >= 90.0 && explained >= 90.0, "{row}");
    }
}
