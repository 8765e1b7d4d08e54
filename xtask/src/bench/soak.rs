//! The recorder beside threads that switch as fast as they can.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Attached, attacher};

#[derive(clap::Args)]
pub struct Args {
    /// How long, in seconds; an hour proves more
    #[arg(long, default_value_t = 60)]
    duration: u64,
    /// Fails below so many switches per second, which would prove nothing
    #[arg(long, default_value_t = 100_000)]
    rate: u64,
}

/// Ends the load whatever happens.
struct Load(Vec<Child>);

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // perf has a child of its own, which is in the same group. Both fail only if they are gone.
            let _ = Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).status();
            let _ = child.wait();
        }
    }
}

pub fn print(args: &Args) -> Result<()> {
    let attacher = attacher()?;
    let begin = Instant::now();
    // Every wait of 50 µs or more is sent: with threads that crowd the CPUs these are many.
    let attached = Attached::start(&attacher, "all", 50, "sched,idle,irq")?;
    let pid = attached.child.id();
    let load = load()?;
    // The rings are mapped and touched as they fill; what is there after a tenth is all there is.
    let duration = Duration::from_secs(args.duration);
    let mut memory = Vec::new();
    while begin.elapsed() < duration {
        std::thread::sleep((duration / 20).min(Duration::from_secs(60)));
        memory.push(resident_kib(pid)?);
    }
    let seconds = begin.elapsed().as_secs_f64();
    drop(load);
    let counts = attached.stop()?;
    let of = |name: &str| counts[name].as_u64().unwrap_or_default();
    let rate = of("switches") as f64 / seconds;
    let (first, last) = (memory[memory.len() / 5], memory[memory.len() - 1]);
    println!("{seconds:.0} s, {rate:.0} switches/s, {} waits", of("waits"));
    println!("{} of them over the threshold and sent, {} dropped", of("sent"), of("dropped"));
    println!("resident {first} KiB after a fifth of the time, {last} KiB at the end");
    ensure!(rate >= args.rate as f64, "too few switches: {rate:.0}/s");
    ensure!(last <= first + first / 20, "it grew by more than 5 %");
    Ok(())
}

/// Two pairs of processes for each CPU that hand a byte to and fro.
fn load() -> Result<Load> {
    let mut load = Load(Vec::new());
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
