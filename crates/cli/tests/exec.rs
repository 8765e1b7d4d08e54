//! `quietcore exec`: the program runs where and how it was told, and is itself in all else.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use program::{own_cpu, quietcore, refuses, stderr, stdout};

/// `exec` of a command on a CPU that is there, without the audit's warnings.
fn exec(flags: &[&str], line: &[&str]) -> Command {
    let cpu = own_cpu();
    quietcore(&[&["exec", "--quiet", "--cpus", cpu.as_str()], flags, &["--"], line].concat())
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim()
}

#[test]
fn the_program_runs_on_these_cpus_only() {
    let status = stdout(&mut exec(&[], &["cat", "/proc/self/status"]), 0);
    assert_eq!(field(&status, "Cpus_allowed_list"), own_cpu());
}

#[test]
fn exit_codes_and_signals_are_the_program_s_own() {
    for code in [0, 1, 3, 42] {
        let exit = format!("exit {code}");
        assert_eq!(stdout(&mut exec(&[], &["sh", "-c", exit.as_str()]), code), "");
    }
    let status = exec(&[], &["sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(status.signal(), Some(15));
}

#[test]
fn it_becomes_the_program_and_is_not_its_parent() {
    let child = exec(&[], &["sh", "-c", "echo $$"]).stdout(std::process::Stdio::piped()).spawn();
    let child = child.unwrap();
    let pid = child.id().to_string();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), pid);
}

#[test]
fn arguments_that_look_like_flags_are_the_program_s() {
    let cpu = own_cpu();
    let line = ["exec", "--quiet", "--cpus", cpu.as_str(), "echo", "--mlock", "-x", "--cpus"];
    assert_eq!(stdout(&mut quietcore(&line), 0), "--mlock -x --cpus\n");
}

#[test]
fn warnings_go_to_stderr_and_quiet_means_quiet() {
    let cpu = own_cpu();
    let output = quietcore(&["exec", "--cpus", cpu.as_str(), "--", "echo", "x"]).output().unwrap();
    assert_eq!(output.stdout, b"x\n");
    assert!(stderr(&output).lines().all(|line| line.starts_with("quietcore: warning: ")));
    let output = exec(&[], &["echo", "x"]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_done_is_one_line_that_names_it() {
    let on = |cpus: &str| quietcore(&["exec", "--cpus", cpus, "--", "true"]);
    refuses(&mut on("8000"), 2, &["CPU 8000 is not online"]);
    refuses(&mut on(&format!("{},8000", own_cpu())), 2, &["CPU 8000 is not online"]);
    refuses(&mut on(""), 2, &["names no CPU"]);
    refuses(&mut exec(&[], &["no-such-program"]), 2, &["no-such-program", "No such file"]);
    refuses(&mut exec(&[], &["/"]), 2, &["cannot execute /:", "Permission denied"]);
    refuses(&mut exec(&["--fifo", "100"], &["true"]), 2, &["--fifo", "1..=99"]);
    refuses(&mut exec(&["--numa", ""], &["true"]), 2, &["--numa", "names no node"]);
    refuses(&mut exec(&["--numa", "1000"], &["true"]), 2, &["NUMA nodes 1000"]);
    refuses(&mut exec(&[], &[]), 2, &["required arguments"]);
}

#[test]
fn memory_is_bound_to_the_nodes_named() {
    let Ok(nodes) = fs::read_to_string("/sys/devices/system/node/has_memory") else {
        // A kernel without NUMA cannot bind.
        return refuses(&mut exec(&["--numa", "0"], &["true"]), 2, &["NUMA nodes 0"]);
    };
    let node = nodes.trim().split(['-', ',']).next().unwrap();
    let maps = stdout(&mut exec(&["--numa", node], &["cat", "/proc/self/numa_maps"]), 0);
    let bound = format!("bind:{node}");
    let policy = |line: &str| line.split(' ').nth(1).map(str::to_owned);
    assert!(maps.lines().all(|line| policy(line).as_deref() == Some(&bound)), "{maps}");
}

#[test]
#[ignore = "needs root (CAP_SYS_NICE): cargo test -p quietcore-cli --test exec -- --ignored"]
fn root_the_program_runs_in_its_class() {
    let stat = stdout(&mut exec(&["--fifo", "7"], &["cat", "/proc/self/stat"]), 0);
    // The name in brackets may hold spaces; fields are counted from behind it.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let (priority, policy) = (fields[40 - 3], fields[41 - 3]);
    assert_eq!((priority, policy), ("7", "1"), "{stat}");
}

#[test]
#[ignore = "needs root (CAP_IPC_LOCK): cargo test -p quietcore-cli --test exec -- --ignored"]
fn root_the_program_s_memory_is_locked() {
    let locked = |flags: &[&str]| {
        let status = stdout(&mut exec(flags, &["cat", "/proc/self/status"]), 0);
        field(&status, "VmLck").trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    assert_eq!(locked(&[]), 0);
    assert!(locked(&["--mlock"]) > 100);
    assert_eq!(stdout(&mut exec(&["--mlock"], &["sh", "-c", "exit 42"]), 42), "");
}

#[test]
#[ignore = "needs root (it becomes another user): cargo test -p quietcore-cli --test exec -- --ignored"]
fn root_without_privileges_it_places_and_says_what_else_would_need() {
    let (_place, program) = program::for_everybody();
    let limited = |flags: &str, line: &str| {
        let script = format!(
            "ulimit -l 64; exec {} exec --quiet --cpus {} {flags} -- {line}",
            program.display(),
            own_cpu()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).uid(65_534).gid(65_534);
        command
    };
    let status = stdout(&mut limited("", "cat /proc/self/status"), 0);
    assert_eq!(field(&status, "Cpus_allowed_list"), own_cpu());
    refuses(&mut limited("--fifo 7", "echo x"), 3, &["SCHED_FIFO 7", "CAP_SYS_NICE"]);
    refuses(&mut limited("--mlock", "echo x"), 3, &["RLIMIT_MEMLOCK"]);
}
