//! `quietcore offcpu` as people call it, compared with what its victim measured itself.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;
mod victim;

use std::fs;

use program::{quietcore, read, refuses, sections};
use victim::{Victim, watched};

/// Debian's libc has no frame pointers: a walk loses whoever calls it, hence `calls_libc`.
///
/// Sleeps 50 times in a function of its own, and says how many nanoseconds that took.
const SLEEPER: &str = r#"
static void calls_libc(void) { struct timespec length = { 0, 4000000 }; nanosleep(&length, 0); asm volatile(""); }
static void sleeps_here(void) { calls_libc(); asm volatile(""); }
int main(void) {
    unsigned long long took = 0;
    go();
    for (int i = 0; i < 50; i++) { unsigned long long from = now(); sleeps_here(); took += now() - from; }
    done(took);
}
"#;

/// Two threads hand a byte to and fro through pipes.
const PIPES: &str = r#"
static int to[2], back[2];
static void calls_libc(int fd) { char c; if (read(fd, &c, 1) != 1) _exit(1); asm volatile(""); }
static void takes_from_the_pipe(int fd) { calls_libc(fd); asm volatile(""); }
static void *other(void *none) { for (int i = 0; i < 500; i++) { takes_from_the_pipe(to[0]); if (write(back[1], "x", 1) != 1) _exit(1); } return 0; }
int main(void) {
    pthread_t thread;
    if (pipe(to) || pipe(back)) return 1;
    go();
    pthread_create(&thread, 0, other, 0);
    for (int i = 0; i < 500; i++) { if (write(to[1], "x", 1) != 1) return 1; takes_from_the_pipe(back[0]); }
    pthread_join(thread, 0);
    done(0);
}
"#;

/// Reads by turns, with one and the same instruction, from a timer and from a pipe, and says how many
/// nanoseconds it waited for the timer.
const TURNS: &str = r#"
#include <sys/timerfd.h>
static int pipe_fd[2];
static void *writer(void *none) { for (int i = 0; i < 50; i++) { usleep(6000); if (write(pipe_fd[1], "12345678", 8) != 8) _exit(1); } return 0; }
static void takes(int fd) { char c[8]; if (read(fd, c, 8) != 8) _exit(1); asm volatile(""); }
int main(void) {
    pthread_t thread;
    struct itimerspec once = { { 0, 0 }, { 0, 2000000 } };
    unsigned long long took = 0;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    if (timer < 0 || pipe(pipe_fd)) return 1;
    go();
    pthread_create(&thread, 0, writer, 0);
    for (int i = 0; i < 100; i++) {
        unsigned long long from = now();
        int turn = i % 2;
        if (turn) timerfd_settime(timer, 0, &once, 0);
        takes(turn ? timer : pipe_fd[0]);
        if (turn) took += now() - from;
    }
    pthread_join(thread, 0);
    done(took);
}
"#;

fn weight_of(run: &serde_json::Value, parts: &[&str]) -> u64 {
    let flame = run["sections"].as_array().unwrap().iter().find(|s| s["type"] == "flame").unwrap();
    let stacks = flame["stacks"].as_object().unwrap();
    let has = |stack: &&String| parts.iter().all(|part| stack.contains(part));
    stacks.iter().filter(|(stack, _)| has(stack)).map(|(_, n)| n.as_u64().unwrap()).sum()
}

#[test]
fn root_a_thread_that_sleeps_is_found_where_it_sleeps_for_as_long_as_it_slept() {
    let victim = Victim::compile(SLEEPER, &["-fno-omit-frame-pointer"]);
    let (json, slept) = watched(&victim, "offcpu", &["--state", "blocked"]);
    let run = read(&json);
    let expected =
        ["offcpu_threads", "offcpu_histogram", "offcpu", "offcpu_counts", "offcpu_programs"];
    assert_eq!(sections(&run), expected);
    let measured = weight_of(&run, &["sleeps_here", "_nanosleep_[k]"]);
    // It cannot have been off its CPU for longer than it says; and 200 ms were asked for.
    assert!(measured <= slept, "{measured} of {slept} ns");
    assert!(measured > 100_000_000, "{measured} of {slept} ns: {run:#}");
    assert_eq!(run["validity"]["lost_events"], 0);
}

#[test]
fn root_stacks_that_are_recognised_are_not_mistaken_for_one_another() {
    let victim = Victim::compile(TURNS, &["-fno-omit-frame-pointer"]);
    let (json, timer) = watched(&victim, "offcpu", &["--state", "blocked"]);
    let run = read(&json);
    let of_timer = weight_of(&run, &["timerfd_read"]);
    assert!(of_timer <= timer && of_timer > timer / 4, "{of_timer} of {timer} ns: {run:#}");
    assert!(weight_of(&run, &["pipe_read"]) > 0, "{run:#}");
}

#[test]
fn root_who_ends_waits_is_named_with_its_stack() {
    let victim = Victim::compile(PIPES, &["-fno-omit-frame-pointer"]);
    let (json, _) = watched(&victim, "offcpu", &["--wakers", "--min", "1ns"]);
    let run = read(&json);
    assert!(
        weight_of(&run, &["takes_from_the_pipe", ";--;", "pipe_write_[k]", "waker"]) > 0,
        "{run:#}"
    );
}

#[test]
fn root_short_waits_and_other_kinds_are_left_out() {
    let victim = Victim::compile(SLEEPER, &["-fno-omit-frame-pointer"]);
    let (json, _) = watched(&victim, "offcpu", &["--min", "1h"]);
    assert_eq!(weight_of(&read(&json), &[]), 0);
    let (json, _) = watched(&victim, "offcpu", &["--state", "preempted"]);
    assert_eq!(weight_of(&read(&json), &["sleeps_here", "_nanosleep_[k]"]), 0);
}

#[test]
fn root_either_half_of_the_stacks_can_be_had_alone() {
    let victim = Victim::compile(SLEEPER, &["-fno-omit-frame-pointer"]);
    let (json, _) = watched(&victim, "offcpu", &["--split", "kernel"]);
    let run = read(&json);
    assert!(weight_of(&run, &["_nanosleep_[k]"]) > 0);
    assert_eq!(weight_of(&run, &["sleeps_here"]), 0);
    let (json, _) = watched(&victim, "offcpu", &["--split", "user"]);
    let run = read(&json);
    assert!(weight_of(&run, &["sleeps_here"]) > 0);
    assert_eq!(weight_of(&run, &["_[k]"]), 0);
}

#[test]
fn root_stacks_are_written_for_other_programs() {
    let victim = Victim::compile(SLEEPER, &["-fno-omit-frame-pointer"]);
    let dir = tempfile::tempdir().unwrap();
    let [folded, svg] = ["folded", "svg"].map(|name| dir.path().join(name));
    let args = ["--folded", folded.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    watched(&victim, "offcpu", &args);
    assert!(fs::read_to_string(folded).unwrap().contains(";sleeps_here;"));
    assert!(fs::read_to_string(svg).unwrap().contains("sleeps_here"));
}

#[test]
fn whoever_is_not_there_cannot_be_watched() {
    refuses(&mut quietcore(&["offcpu", "--pid", "4194305"]), 2, &["no such process"]);
    refuses(&mut quietcore(&["offcpu", "--tid", "4194305"]), 2, &["no such thread"]);
}
