//! `quietcore selftest` as people call it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use program::{quietcore, refuses, run, sections};

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
    let run = run(&mut quietcore(&only), 0);
    // Others may take the CPU in the middle of a cause: one in a hundred may be named wrongly.
    assert_eq!(sections(&run)[..2], ["selftest_matrix", "selftest"]);
    let rows = run["sections"][1]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(row[1].as_u64().unwrap() > 0, "{row}");
    }
}
