//! The monitor, as it is installed, beside threads that switch as fast as they can.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::built;

#[derive(clap::Args)]
pub struct Args {
    /// How long, in seconds; an hour proves more
    #[arg(long, default_value_t = 60)]
    duration: u64,
    /// Fails below so many switches per second, which would prove nothing
    #[arg(long, default_value_t = 100_000)]
    rate: u64,
    /// The program, instead of a release build of this tree
    #[arg(long)]
    quietcore: Option<PathBuf>,
}

/// Ends processes whatever happens.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // perf has a child of its own, which is in the same group. Both fail only if they are gone.
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status();
            let _ = child.wait();
        }
    }
}

/// What was printed of spikes.
#[derive(Default)]
struct Printed {
    spikes: u64,
    incomplete: u64,
    /// Whose parts do not add up to it.
    wrong: u64,
}

pub fn print(args: &Args) -> Result<()> {
    let release = || built(&["--release", "--package", "quietcore-cli"], "release/quietcore");
    let program = args.quietcore.clone().map_or_else(release, Ok)?;
    let before = programs()?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let begin = Instant::now();
    let mut monitor = Command::new(program)
        .args(["spikes", "--all", "--quiet", "--live", "jsonl", "--threshold", "50us"])
        .args(["--output", "/dev/null", "--metrics", &address.to_string()])
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("quietcore")?;
    let pid = monitor.id();
    let printed = read(monitor.stdout.take().context("a piped stdout")?);
    let monitor = Processes(vec![monitor]);
    let load = load()?;
    let duration = Duration::from_secs(args.duration);
    let mut memory = Vec::new();
    while begin.elapsed() < duration {
        std::thread::sleep((duration / 20).min(Duration::from_secs(60)));
        memory.push(resident_kib(pid)?);
    }
    drop(load);
    let seconds = begin.elapsed().as_secs_f64();
    let counted = counters(address)?;
    let held = &programs()? - &before;
    drop(monitor);
    let printed = printed.join().map_err(|_| anyhow::anyhow!("reading its spikes"))??;

    let of = |name: &str| counted.get(name).copied().context(name.to_owned());
    let rate = of("quietcore_switches_total")? / seconds;
    // The rings are mapped and touched as they fill: what is there after a fifth is all there is.
    let (first, last) = (memory[memory.len() / 5], memory[memory.len() - 1]);
    println!("{seconds:.0} s, {rate:.0} switches/s, {} waits", of("quietcore_waits_total")?);
    println!(
        "{} spikes printed, {} incomplete, {} whose parts do not add up; {} lost and counted",
        printed.spikes,
        printed.incomplete,
        printed.wrong,
        of("quietcore_spikes_lost_total")?
    );
    println!("resident {first} KiB after a fifth of the time, {last} KiB at the end");
    ensure!(rate >= args.rate as f64, "too few switches: {rate:.0}/s");
    ensure!(printed.spikes > 0 && printed.wrong == 0, "spikes that cannot be right");
    ensure!(printed.incomplete * 4 <= printed.spikes, "of too many spikes events were overwritten");
    ensure!(last <= first + first / 20, "it grew by more than 5 %");
    detached(&held)
}

/// The kernel takes programs away after a grace period of RCU.
fn detached(held: &BTreeSet<u64>) -> Result<()> {
    let count = held.len();
    ensure!(count > 10, "only {count} programs were attached");
    let begin = Instant::now();
    while !programs()?.is_disjoint(held) {
        ensure!(begin.elapsed() < Duration::from_secs(30), "BPF programs are left after SIGKILL");
        std::thread::sleep(Duration::from_millis(100));
    }
    println!(
        "{count} BPF programs before SIGKILL, none {:.1} s later",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Takes every spike as it is printed.
fn read(stdout: ChildStdout) -> JoinHandle<Result<Printed>> {
    std::thread::spawn(move || {
        let mut printed = Printed::default();
        let mut lines = BufReader::new(stdout).split(b'\n').peekable();
        while let Some(line) = lines.next() {
            let spike: Value = match serde_json::from_slice(&line?) {
                Ok(spike) => spike,
                // SIGKILL cuts the last.
                Err(_) if lines.peek().is_none() => break,
                Err(error) => return Err(error).context("a line that is no spike"),
            };
            let parts = spike["segments"].as_array().context("a spike without segments")?;
            let sum: u64 = parts.iter().filter_map(|part| part["len_ns"].as_u64()).sum();
            printed.spikes += 1;
            printed.incomplete += u64::from(!spike["incomplete"].is_null());
            printed.wrong += u64::from(Some(sum) != spike["len_ns"].as_u64());
        }
        Ok(printed)
    })
}

/// Its metrics that have no labels.
fn counters(address: SocketAddr) -> Result<BTreeMap<String, f64>> {
    let mut stream = TcpStream::connect(address).context("its metrics")?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    let lines = page.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}

/// The BPF programs that this host has.
fn programs() -> Result<BTreeSet<u64>> {
    let out = Command::new("bpftool").args(["prog", "list", "--json"]).output();
    let out = out.context("bpftool: the package of that name has it")?;
    match serde_json::from_slice(&out.stdout)? {
        Value::Array(all) => Ok(all.iter().filter_map(|program| program["id"].as_u64()).collect()),
        other => bail!("bpftool prog list: {other}"),
    }
}

/// Two pairs of processes for each CPU that hand a byte to and fro.
fn load() -> Result<Processes> {
    let mut load = Processes(Vec::new());
    let cpus = std::thread::available_parallelism()?.get();
    for n in 0..2 * cpus {
        let child = Command::new("taskset")
            .args(["-c", &(n % cpus).to_string()])
            .args(["perf", "bench", "-f", "simple", "sched", "pipe", "-l", "2000000000"])
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context("taskset")?;
        load.0.push(child);
    }
    Ok(load)
}

fn resident_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    line.split_whitespace().nth(1).context("no VmRSS")?.parse().context("VmRSS")
}
