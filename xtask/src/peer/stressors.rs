//! stress-ng and a JVM as injectors that the classifier was not built against: what each adds to a
//! thread's lost time has to be named by what it is known to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::java;

/// Nanoseconds by kind.
type Times = BTreeMap<String, i64>;

/// What `cargo xtask peer stressors` is told.
#[derive(clap::Args)]
pub struct Options {
    /// The CPU that is watched; stressors that must work elsewhere work on the others
    #[arg(long, default_value_t = 1)]
    cpu: usize,
    /// How long each is watched, in seconds
    #[arg(long, value_name = "N", default_value_t = 4)]
    seconds: u64,
    /// Only stressors whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Ask this quietcore, not one that is built for it
    #[arg(long, value_name = "FILE")]
    pub quietcore: Option<PathBuf>,
}

/// Where a stressor works, seen from the CPU that is watched.
#[derive(Clone, Copy)]
enum Place {
    Here,
    /// It preempts whom it likes.
    HereFifo,
    Elsewhere,
    Everywhere,
    /// With a loopback of its own, whose packets the watched CPU receives.
    ElsewhereRps,
}
use Place::{Elsewhere, ElsewhereRps, Everywhere, Here, HereFifo};

/// A stressor beside a thread that spins.
struct Beside {
    stressor: &'static str,
    options: &'static [&'static str],
    place: Place,
    expected: &'static [&'static str],
}

const fn beside(
    stressor: &'static str,
    options: &'static [&'static str],
    place: Place,
    expected: &'static [&'static str],
) -> Beside {
    Beside { stressor, options, place, expected }
}

/// What works on the watched CPU takes it away; what works elsewhere reaches it by interrupts or by
/// work that the kernel queues on every CPU.
const BESIDE: &[Beside] = &[
    beside("cpu", &[], Here, &["preempted"]),
    beside("cpu", &["--cpu-load", "20"], HereFifo, &["preempted"]),
    beside("switch", &[], Here, &["preempted"]),
    beside("hrtimers", &[], Here, &["preempted", "timer"]),
    beside("timer", &["--timer-freq", "1000"], Here, &["preempted", "timer"]),
    beside("fault", &[], Here, &["preempted"]),
    beside("malloc", &[], Here, &["preempted"]),
    // Its disk's interrupts come to where the requests were made.
    beside(
        "hdd",
        &["--hdd-opts", "fsync", "--hdd-bytes", "16m"],
        Here,
        &["preempted", "hard_irq", "softirq"],
    ),
    beside("tlb-shootdown", &[], Everywhere, &["tlb_shootdown", "preempted"]),
    beside("fork", &[], Elsewhere, &["ipi", "preempted", "tlb_shootdown"]),
    beside("udp", &[], ElsewhereRps, &["softirq"]),
];

/// A stressor whose own waits are watched.
struct Watched {
    stressor: &'static str,
    options: &'static [&'static str],
    expected: &'static [&'static str],
}

const fn watched(
    stressor: &'static str,
    options: &'static [&'static str],
    expected: &'static [&'static str],
) -> Watched {
    Watched { stressor, options, expected }
}

/// What each of them waits for. That others have the CPU meanwhile is this host's doing, not theirs.
const WATCHED: &[Watched] = &[
    watched("flock", &[], &["lock"]),
    watched("hdd", &["--hdd-opts", "fsync", "--hdd-bytes", "64m"], &["io"]),
    watched("sync-file", &["--sync-file-bytes", "32m"], &["io"]),
];

/// What does not count there: all that lies between the wake-up and the switch.
const OF_THE_CPU: [&str; 8] =
    ["preempted", "run_queue", "wake_ipi", "idle_exit", "tick", "timer", "softirq", "hard_irq"];

/// Runs all of it and prints Markdown.
pub fn run(options: &Options, work: &Path, quietcore: &Path) -> Result<()> {
    let wanted = |name: &str| name.contains(&options.only);
    println!("## A thread that spins on CPU {}, and a stressor\n", options.cpu);
    println!("What the stressor added to the thread's gaps of 2 µs and more.\n");
    println!("| stressor | where | expected | added, ms per s | named so | the rest |");
    println!("| --- | --- | --- | ---: | ---: | --- |");
    for of in BESIDE.iter().filter(|of| wanted(of.stressor)) {
        eprintln!("peer: {} beside", of.stressor);
        let without = gaps(options, quietcore)?;
        let mut running = start(options, of)?;
        let with = gaps(options, quietcore);
        running.wait().context("stress-ng")?;
        let mut added = with?;
        for (kind, ns) in without {
            *added.entry(kind).or_default() -= ns;
        }
        added.retain(|_, ns| *ns > 0);
        row(options, &format!("{} | {}", of.stressor, of.place.name()), of.expected, &added);
    }
    println!("\n## What stressors wait for\n");
    println!("Waits of 20 µs and more of the stressor's own processes, without those for a CPU.\n");
    println!("| stressor | expected | waited, ms per s | named so | the rest |");
    println!("| --- | --- | ---: | ---: | --- |");
    for of in WATCHED.iter().filter(|of| wanted(of.stressor)) {
        eprintln!("peer: {} watched", of.stressor);
        let mut running =
            stress(options, of.stressor, of.options, 2).spawn().context("stress-ng")?;
        thread::sleep(Duration::from_secs(1));
        let waits = waits(options, quietcore, running.id());
        running.wait().context("stress-ng")?;
        let mut waits = waits?;
        waits.retain(|kind, _| !OF_THE_CPU.contains(&kind.as_str()));
        row(options, of.stressor, of.expected, &waits);
    }
    if wanted("java") {
        java::print(work, quietcore)?;
    }
    Ok(())
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Here => "the same CPU",
            HereFifo => "the same CPU, SCHED_FIFO",
            Elsewhere => "another CPU",
            Everywhere => "all CPUs",
            ElsewhereRps => "another CPU, received here",
        }
    }
}

/// `stress-ng` for as long as a measurement with all that goes with it takes.
fn stress(options: &Options, stressor: &str, more: &[&str], instances: u32) -> Command {
    let mut command = Command::new("stress-ng");
    command.args(["--quiet", "--timeout", &(options.seconds + 5).to_string()]);
    command.args([&format!("--{stressor}"), &instances.to_string()]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn start(options: &Options, of: &Beside) -> Result<Child> {
    let (cpu, others) = (options.cpu, format!("^{}", options.cpu));
    let plain = stress(options, of.stressor, of.options, 1);
    let words: Vec<String> = std::iter::once(plain.get_program())
        .chain(plain.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let elsewhere = elsewhere(cpu)?;
    let on =
        |cpus: &str| [vec!["taskset".into(), "-c".into(), cpus.into()], words.clone()].concat();
    let words: Vec<String> = match of.place {
        Here => on(&cpu.to_string()),
        HereFifo => [vec!["chrt".into(), "-f".into(), "20".into()], on(&cpu.to_string())].concat(),
        Elsewhere => on(&elsewhere),
        Everywhere => words.clone(),
        ElsewhereRps => {
            let script = format!(
                "mount --make-rprivate / && mount -t sysfs sysfs /sys && ip link set lo up && \
                 echo {:x} > /sys/class/net/lo/queues/rx-0/rps_cpus && exec {}",
                1u64 << cpu,
                on(&elsewhere).join(" ")
            );
            ["unshare", "--net", "--mount", "sh", "-c", &script].map(str::to_owned).to_vec()
        }
    };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().with_context(|| format!("{} {others}", words[0]))?;
    thread::sleep(Duration::from_secs(1));
    Ok(child)
}

/// All other CPUs, as `taskset` wants them.
fn elsewhere(cpu: usize) -> Result<String> {
    let cpus = thread::available_parallelism().context("the number of CPUs")?.get();
    let others: Vec<String> = (0..cpus).filter(|n| *n != cpu).map(|n| n.to_string()).collect();
    if others.is_empty() {
        bail!("this needs two CPUs");
    }
    Ok(others.join(","))
}

/// What a spinning thread loses, by kind.
fn gaps(options: &Options, quietcore: &Path) -> Result<Times> {
    let (cpu, seconds) = (options.cpu.to_string(), format!("{}s", options.seconds));
    let args =
        ["jitter", "--explain", "--threshold", "2us", "--cpus", &cpu, "--duration", &seconds];
    times(Command::new(quietcore).args(args), "jitter_explained")
}

/// What the processes below one wait for, by kind.
fn waits(options: &Options, quietcore: &Path, of: u32) -> Result<Times> {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"))
        .context("stress-ng's processes")?;
    let pids = children.split_whitespace().flat_map(|pid| ["--pid", pid]);
    let mut command = Command::new(quietcore);
    command.arg("spikes").args(pids).args(["--threshold", "20us", "--probe", "all"]);
    command.args(["--live", "none", "--duration", &format!("{}s", options.seconds)]);
    times(&mut command, "spikes")
}

/// The times of a section of spikes, by kind.
fn times(command: &mut Command, section: &str) -> Result<Times> {
    let run = json(command)?;
    let sections = run["sections"].as_array().into_iter().flatten();
    let mut spikes = sections.filter(|of| of["name"] == section);
    let Some(spikes) = spikes.next() else { return Ok(Times::new()) };
    let kinds = spikes["kinds"].as_array().into_iter().flatten();
    let time = |of: &Value| Some((of["kind"].as_str()?.to_owned(), of["total_ns"].as_i64()?));
    Ok(kinds.filter_map(time).collect())
}

/// A run's result.
fn json(command: &mut Command) -> Result<Value> {
    let output = command.args(["--quiet", "--format", "json"]).output().context("quietcore")?;
    // 1 is spikes.
    if !matches!(output.status.code(), Some(0 | 1)) {
        bail!("quietcore: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("quietcore's JSON")
}

fn row(options: &Options, head: &str, expected: &[&str], times: &Times) {
    let all: i64 = times.values().sum();
    let right: i64 = expected.iter().filter_map(|kind| times.get(*kind)).sum();
    let percent = |ns: i64| ns as f64 / all.max(1) as f64 * 100.0;
    let mut rest: Vec<_> =
        times.iter().filter(|(kind, _)| !expected.contains(&kind.as_str())).collect();
    rest.sort_by_key(|(_, ns)| -**ns);
    let rest: Vec<String> = rest
        .iter()
        .take(4)
        .filter(|(_, ns)| percent(**ns) >= 0.1)
        .map(|(kind, ns)| format!("{kind} {:.1} %", percent(**ns)))
        .collect();
    println!(
        "| {head} | {} | {:.2} | {:.1} % | {} |",
        expected.join(", "),
        all as f64 / 1e6 / options.seconds as f64,
        percent(right),
        rest.join(", ")
    );
}
