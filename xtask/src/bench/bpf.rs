//! The cost of each set of programs: `perf bench sched pipe`, where a round trip is two switches, two
//! wake-ups and four system calls, and little else.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::{Attached, attacher};

#[derive(clap::Args)]
pub struct Args {
    /// How often every row is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Round trips per measurement
    #[arg(long, default_value_t = 100_000)]
    trips: u32,
    /// Only rows whose name has this in it, and the first
    #[arg(long)]
    only: Option<String>,
    /// Also compare this quietcore's `offcpu` with libbpf-tools' `offcputime`
    #[arg(long, value_name = "FILE")]
    quietcore: Option<PathBuf>,
}

/// What is attached while a row is measured.
enum What {
    Nothing,
    Recorder { watch: &'static str, threshold_us: u32, sets: &'static str },
    Tool { program: PathBuf, args: &'static [&'static str] },
}

struct Row {
    name: &'static str,
    what: What,
}

/// A recorder with the default sets and one more.
const fn recorder(name: &'static str, watch: &'static str, sets: &'static str) -> Row {
    Row { name, what: What::Recorder { watch, threshold_us: 50, sets } }
}

fn rows(args: &Args) -> Vec<Row> {
    let mut rows = vec![
        Row { name: "nothing", what: What::Nothing },
        recorder("default, watching another process", "1", "sched,idle,irq"),
        recorder("default, watching all", "all", "sched,idle,irq"),
        recorder("switches alone, watching all", "all", "sched"),
        recorder("default + ipi, watching all", "all", "sched,idle,irq,ipi"),
        recorder("default + fault, watching all", "all", "sched,idle,irq,fault"),
        recorder("default + timer, watching all", "all", "sched,idle,irq,timer"),
        recorder("default + memory, watching all", "all", "sched,idle,irq,memory"),
        recorder("default + syscall, watching all", "all", "sched,idle,irq,syscall"),
    ];
    if let Some(quietcore) = &args.quietcore {
        rows.push(Row {
            name: "quietcore offcpu, stacks",
            what: What::Tool { program: quietcore.clone(), args: OFFCPU },
        });
        rows.push(Row {
            name: "offcputime, stacks",
            what: What::Tool { program: "offcputime".into(), args: OFFCPUTIME },
        });
    }
    if let Some(only) = &args.only {
        rows.retain(|row| matches!(row.what, What::Nothing) || row.name.contains(only.as_str()));
    }
    rows
}

/// Both from 1 µs on, with stacks of at most 127 frames.
const OFFCPU: &[&str] = &["offcpu", "--all", "--min", "1us", "--duration", "60s"];
const OFFCPUTIME: &[&str] = &["-m", "1", "--perf-max-stack-depth", "127", "60"];

pub fn print(args: &Args) -> Result<()> {
    ensure!(args.rounds > 0, "no rounds, no numbers");
    let attacher = attacher()?;
    let rows = rows(args);
    let mut us: Vec<Vec<f64>> = rows.iter().map(|_| Vec::new()).collect();
    for round in 0..args.rounds {
        eprintln!("bench: round {} of {}", round + 1, args.rounds);
        for (row, us) in rows.iter().zip(&mut us) {
            us.push(measure(row, &attacher, args.trips).with_context(|| row.name)?);
        }
    }
    let base = us.first().cloned().unwrap_or_default();
    println!("`perf bench sched pipe` on CPU 1, SCHED_FIFO; {} rounds in turn.\n", args.rounds);
    println!("| attached | µs per round trip | to nothing (range of pairs) |");
    println!("| --- | ---: | ---: |");
    for (row, us) in rows.iter().zip(&us) {
        let mut ratios: Vec<f64> = us.iter().zip(&base).map(|(us, base)| us / base).collect();
        let mut us = us.clone();
        let middle = median(&mut ratios);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        println!("| {} | {:.2} | {middle:.2} ({least:.2}–{most:.2}) |", row.name, median(&mut us));
    }
    if let [.., ours, theirs] = &us[..] {
        if args.quietcore.is_some() {
            let mut ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
            println!("\noffcpu to offcputime: {:.2}", median(&mut ratios));
        }
    }
    Ok(())
}

/// Sorts, too.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure(row: &Row, attacher: &Path, trips: u32) -> Result<f64> {
    // What the row before had attached is still being freed.
    std::thread::sleep(Duration::from_millis(500));
    match &row.what {
        What::Nothing => pipe(trips),
        What::Recorder { watch, threshold_us, sets } => {
            let attached = Attached::start(attacher, watch, *threshold_us, sets)?;
            let us = pipe(trips);
            attached.stop()?;
            us
        }
        What::Tool { program, args } => {
            let mut command = Command::new("taskset");
            command.args(["-c", "0"]).arg(program).args(*args);
            let mut tool = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            let us = settled(&mut tool).and_then(|()| pipe(trips));
            // What it found is of no interest, and it would take its time to print it.
            tool.kill()?;
            tool.wait()?;
            us
        }
    }
}

/// Neither tool says when it is attached; both need far less than this.
fn settled(tool: &mut Child) -> Result<()> {
    std::thread::sleep(Duration::from_secs(2));
    match tool.try_wait()? {
        None => Ok(()),
        Some(status) => bail!("it ended with {status}"),
    }
}

/// Microseconds per round trip between two processes on CPU 1 that nothing of the fair class takes
/// it from.
fn pipe(trips: u32) -> Result<f64> {
    let output = Command::new("chrt")
        .args(["--fifo", "50", "taskset", "-c", "1"])
        .args(["perf", "bench", "-f", "simple", "sched", "pipe", "-l", &trips.to_string()])
        .output()
        .context("chrt")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let seconds: f64 = said.trim().parse().with_context(|| {
        format!("perf bench: {said}{}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(seconds * 1e6 / f64::from(trips))
}
