//! `quietcore spikes` as people call it. How long anything takes decides nothing here.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use program::{own_cpu, quietcore, read, refuses, run, sections};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Something that always wants to run, on one CPU.
fn hog(cpu: &str) -> Running {
    let child =
        Command::new("taskset").args(["-c", cpu, "sh", "-c", "while :; do :; done"]).spawn();
    Running(child.unwrap())
}

/// The monitor at work until Ctrl-C, and what it still says.
fn start(args: &[&str]) -> (Running, BufReader<ChildStderr>) {
    let mut command = quietcore(&[&["spikes"], args].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut said, "attached ");
    (Running(child), said)
}

fn wait_for(said: &mut impl BufRead, start: &str) -> String {
    let mut line = String::new();
    while !line.starts_with(start) {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended without `{start}`");
    }
    line
}

fn interrupt(child: &Running) {
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_attached() {
    let spikes = |args: &[&str]| quietcore(&[&["spikes"], args].concat());
    refuses(&mut spikes(&[]), 2, &["required"]);
    refuses(&mut spikes(&["--all", "--pid", "1"]), 2, &["--all"]);
    refuses(&mut spikes(&["--cpus", "8000"]), 2, &["CPU 8000 is not online"]);
    refuses(&mut spikes(&["--pid", "4194305"]), 2, &["there is no process 4194305"]);
    refuses(&mut spikes(&["--tid", "4194305"]), 2, &["there is no thread 4194305"]);
    refuses(&mut spikes(&["--all", "--threshold", "0s"]), 2, &["--threshold"]);
    refuses(&mut spikes(&["--all", "--probe", "everything"]), 2, &["--probe"]);
    refuses(&mut spikes(&["--all", "--severity", "5ms,1ms"]), 2, &["--severity", "100us,500us"]);
    refuses(&mut spikes(&["--all", "--attach-at", "25:00"]), 2, &["--attach-at", "07:30"]);
    let both = ["--all", "--live", "jsonl", "--format", "json"];
    refuses(&mut spikes(&both), 2, &["--live jsonl", "-o FILE"]);
    refuses(&mut spikes(&["--all", "-o", "/no/such/dir/x"]), 2, &["/no/such/dir/x"]);
}

#[test]
fn an_occupied_port_is_named_before_anything_is_attached() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut spikes = quietcore(&["spikes", "--all", "--metrics", &address]);
    refuses(&mut spikes, 2, &["--metrics", &address, "in use"]);
}

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test spikes -- --ignored"]
fn root_who_competes_for_a_cpu_is_named() {
    let cpu = own_cpu();
    let (victim, competitor) = (hog(&cpu), hog(&cpu));
    let pid = victim.0.id().to_string();
    let args = ["spikes", "--pid", &pid, "--duration", "2s", "--format", "json"];
    let run = run(&mut quietcore(&args), 1);
    let found = run["sections"][0]["spikes"].as_array().unwrap();
    let named = format!("tid {}", competitor.0.id());
    let mut blamed = 0;
    for spike in found {
        assert_eq!(spike["thread"]["pid"].to_string(), pid);
        let segments = spike["segments"].as_array().unwrap();
        let sum: u64 = segments.iter().map(|s| s["len_ns"].as_u64().unwrap()).sum();
        assert_eq!(spike["len_ns"].as_u64(), Some(sum));
        blamed += usize::from(segments.iter().any(|s| s["by"].to_string().contains(&named)));
    }
    assert!(blamed > 0, "{named} in none of {} spikes", found.len());
    let expected =
        ["spikes", "spikes_length", "spikes_waits", "spikes_programs", "spikes_recorder"];
    assert_eq!(sections(&run), expected);
}

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test spikes -- --ignored"]
fn root_sleeps_that_were_asked_for_are_listed_and_no_spikes() {
    let sleeper =
        Running(Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).spawn().unwrap());
    let pid = sleeper.0.id().to_string();
    let threshold = ["--threshold", "1h", "--duration", "1s", "--format", "json"];
    let run = run(&mut quietcore(&[&["spikes", "--pid", &pid], &threshold[..]].concat()), 0);
    let sleeps =
        run["sections"].as_array().unwrap().iter().find(|s| s["name"] == "spikes_sleeps").unwrap();
    assert_eq!(sleeps["rows"][0][0], "wait4", "{sleeps}");
}

/// One thread pauses as runtimes do, on a condition with a time limit that nobody signals; what the
/// other reads from a pipe comes when it comes. Neither system call's number tells that it sleeps.
const PAUSES: &str = "
import os, threading
out, into = os.pipe()
def reader():
    while os.read(out, 1): pass
threading.Thread(target=reader, daemon=True).start()
lock = threading.Lock()
lock.acquire()
while True:
    lock.acquire(timeout=0.02)
    os.write(into, b'x')
";

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test spikes -- --ignored"]
fn root_a_time_limit_that_ran_out_and_a_read_of_a_pipe_are_sleeps() {
    let sleeper = Running(Command::new("python3").args(["-c", PAUSES]).spawn().unwrap());
    let pid = sleeper.0.id().to_string();
    let args = ["spikes", "--pid", &pid, "--threshold", "2ms", "--duration", "2s"];
    // Whether it wakes up late once is this machine's matter.
    let output = quietcore(&[&args[..], &["--format", "json"]].concat()).output().unwrap();
    let run = read(&String::from_utf8(output.stdout).unwrap());
    let section = |name: &str| {
        let mut all = run["sections"].as_array().unwrap().iter();
        all.find(|section| section["name"] == name).unwrap()
    };
    let sleeps = section("spikes_sleeps")["rows"].to_string();
    assert!(sleeps.contains("\"futex, timed out\"") && sleeps.contains("\"read\""), "{sleeps}");
    for spike in section("spikes")["spikes"].as_array().unwrap() {
        let mut segments = spike["segments"].as_array().unwrap().iter();
        assert!(segments.all(|segment| segment["kind"] != "sleep"), "{spike}");
    }
}

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test spikes -- --ignored"]
fn root_ctrl_c_ends_it_with_the_result() {
    let cpu = own_cpu();
    let (_one, _two) = (hog(&cpu), hog(&cpu));
    let (mut child, _said) = start(&["--cpus", &cpu, "--format", "json"]);
    interrupt(&child);
    let mut text = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let run = read(&text);
    let spikes = &run["sections"][0];
    let count: u64 =
        spikes["kinds"].as_array().unwrap().iter().map(|k| k["spikes"].as_u64().unwrap()).sum();
    assert_eq!(child.0.wait().unwrap().code(), Some(i32::from(count > 0)));
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test spikes -- --ignored"]
fn root_it_attaches_at_the_time_of_day_and_not_before() {
    // Where the time of day is so many seconds behind UTC, the next minute begins in ten.
    let minute = now() + 10;
    let behind = minute % 60;
    let at = minute - behind;
    let time = format!("{:02}:{:02}", at / 3600 % 24, at / 60 % 60);
    let mut command = quietcore(&["spikes", "--pid", "1", "--attach-at", &time]);
    command.env("TZ", format!("QCX0:00:{behind:02}")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let child = Running(child);
    assert!(wait_for(&mut said, "attaching at ").contains(&time));
    wait_for(&mut said, "attached ");
    assert!(now() - behind >= at, "{} instead of {at}", now() - behind);
    drop(child);
}

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test spikes -- --ignored"]
fn root_who_is_called_off_before_that_has_attached_nothing() {
    // In half a day.
    let at = now() + 12 * 3600;
    let time = format!("{:02}:{:02}", at / 3600 % 24, at / 60 % 60);
    let mut command = quietcore(&["spikes", "--all", "--attach-at", &time]);
    command.env("TZ", "UTC").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut child = Running(child);
    wait_for(&mut said, "attaching at ");
    interrupt(&child);
    wait_for(&mut said, "quietcore: interrupted before anything was attached");
    assert_eq!(child.0.wait().unwrap().code(), Some(2));
}

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test spikes -- --ignored"]
fn root_every_live_line_is_a_spike() {
    let cpu = own_cpu();
    let (_one, _two) = (hog(&cpu), hog(&cpu));
    let (mut child, _said) = start(&["--cpus", &cpu, "--live", "jsonl"]);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap());
    for _ in 0..3 {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let spike: quietcore_measure::Spike = serde_json::from_str(&line).unwrap();
        assert!(spike.adds_up(), "{line}");
    }
    // Whoever closes stdout has seen enough.
    drop(lines);
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

#[test]
#[ignore = "needs root (BPF): cargo test -p quietcore-cli --test spikes -- --ignored"]
fn root_metrics_can_be_scraped() {
    let cpu = own_cpu();
    let (_one, _two) = (hog(&cpu), hog(&cpu));
    let (_child, mut said) = start(&["--cpus", &cpu, "--metrics", "127.0.0.1:0"]);
    let line = wait_for(&mut said, "metrics: ");
    let address = line.trim().trim_start_matches("metrics: http://").trim_end_matches("/metrics");
    let scrape = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let mut text = scrape();
    while !text.contains("trading_off_cpu_max_us{process=\"sh\"}") {
        text = scrape();
    }
    for part in [
        "HTTP/1.1 200 OK\r\n",
        "# TYPE trading_off_cpu_spikes_total counter",
        "trading_off_cpu_spikes_total{process=\"sh\",severity=\"critical\"}",
        "quietcore_run_queue_seconds_bucket{le=\"+Inf\"}",
        "quietcore_spikes_lost_total 0",
        "quietcore_program_attached{program=\"waking\",set=\"sched\"} 1",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
#[ignore = "needs root (it becomes another user): cargo test -p quietcore-cli --test spikes -- --ignored"]
fn root_without_privileges_one_line_says_what_is_missing() {
    let (_place, program) = program::for_everybody();
    let mut command = Command::new(program);
    command.args(["spikes", "--all", "--duration", "1h"]).uid(65_534).gid(65_534);
    refuses(&mut command, 3, &["CAP_BPF", "CAP_PERFMON"]);
}
