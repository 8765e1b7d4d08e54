//! A program started by `exec_locked` has its memory locked, and knows nothing of how.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;

use quietcore_sys::memory::{self, NOT_LOCKED};

fn words(line: &[&str]) -> Vec<CString> {
    line.iter().map(|word| CString::new(*word).unwrap()).collect()
}

/// Runs a program by `exec_locked` in a child: its exit code and what it printed.
fn run(line: &[&str], limit: Option<u64>) -> (i32, String) {
    let arguments = words(line);
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: the test harness has more threads, which the child does not; what it runs here
    // allocates, which the C library's fork handlers make safe.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: valid descriptors; then a limit and capabilities are given up, by integers and
        // pointers to values that live.
        unsafe {
            libc::dup2(ends[1], libc::STDOUT_FILENO);
            libc::dup2(ends[1], libc::STDERR_FILENO);
            if let Some(bytes) = limit {
                let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
                libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit);
                libc::setuid(65_534);
                // Changing the user forbids being traced by it; a session of that user may be.
                libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
            }
        }
        let error = memory::exec_locked(&arguments[0], &arguments);
        // Not eprintln: the test harness keeps that for itself.
        let _ = writeln!(std::io::stderr(), "{error}");
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(77) };
    }
    // SAFETY: both descriptors are ours; the first is handed over.
    let mut output = unsafe {
        libc::close(ends[1]);
        File::from_raw_fd(ends[0])
    };
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let mut status = 0;
    // SAFETY: `status` is a valid place to write to, and the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    (if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }, text)
}

fn locked_kib(status: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with("VmLck:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "needs root (CAP_IPC_LOCK): cargo test -p quietcore-sys --test locked_exec -- --ignored"]
fn root_a_program_runs_with_its_memory_locked() {
    let (code, status) = run(&["cat", "/proc/self/status"], None);
    assert_eq!(code, 0, "{status}");
    assert!(locked_kib(&status) > 100, "{status}");
    assert!(status.contains("TracerPid:\t0"), "{status}");
}

#[test]
#[ignore = "needs root (CAP_IPC_LOCK): cargo test -p quietcore-sys --test locked_exec -- --ignored"]
fn root_a_program_has_its_own_exit_code_and_no_child_it_does_not_know() {
    assert_eq!(run(&["sh", "-c", "exit 42"], None).0, 42);
    // A shell waits for all its children; a stranger among them would be seen in /proc.
    let (code, children) = run(&["cat", "/proc/self/task/self/children"], None);
    assert!(code == 0 || children.contains("No such file"), "{children}");
    assert_eq!(run(&["sh", "-c", "cat /proc/$$/task/$$/children | wc -w"], None).1.trim(), "2");
}

#[test]
#[ignore = "needs root (it becomes another user): cargo test -p quietcore-sys --test locked_exec -- --ignored"]
fn root_a_program_that_cannot_be_locked_is_not_started() {
    let (code, text) = run(&["echo", "started"], Some(4_096));
    assert_eq!(code, NOT_LOCKED, "{text}");
    assert!(!text.contains("started\n") && text.contains("RLIMIT_MEMLOCK"), "{text}");
}

#[test]
fn a_program_that_is_not_there_is_an_error_that_names_it() {
    let (code, text) = run(&["no-such-program-anywhere"], None);
    assert_eq!(code, 77);
    assert!(text.contains("no-such-program-anywhere") || text.contains("trace"), "{text}");
}
