//! What the recorder costs, and whether it stays small.
//!
//! Rows are measured in turn, round by round in one run, and only ratios of the same round are
//! compared: a shared machine has good and bad minutes, but both rows of a pair are in the same one.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

mod bpf;
mod soak;

/// What `cargo xtask bench` is told.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// What each set of BPF programs costs two processes that do nothing but switch
    Bpf(bpf::Args),
    /// Whether the recorder's memory stays flat while everything switches as fast as it can
    Soak(soak::Args),
}

pub fn main(args: &Args) -> ExitCode {
    let done = match &args.what {
        What::Bpf(args) => bpf::print(args),
        What::Soak(args) => soak::print(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the program that attaches the recorder and nothing else. What of it runs in the kernel
/// is the same in every profile.
fn attacher() -> Result<PathBuf> {
    built(&["--package", "quietcore-bpf", "--example", "attach"], "debug/examples/attach")
}

/// Builds a program of this tree; where it is then.
fn built(args: &[&str], program: &str) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO")).args(["build", "--quiet"]).args(args).status();
    let status = status.context("cargo")?;
    ensure!(status.success(), "cargo build: {status}");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    Ok(target.join(program))
}

/// The recorder, attached by a process of its own on CPU 0, away from what is measured.
struct Attached {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Attached {
    fn start(attacher: &Path, watch: &str, threshold_us: u32, sets: &str) -> Result<Self> {
        let mut child = Command::new("taskset")
            .args(["-c", "0"])
            .arg(attacher)
            .args([watch, &threshold_us.to_string(), sets])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("taskset")?;
        let mut lines = BufReader::new(child.stdout.take().context("a piped stdout")?).lines();
        lines.next().context("the recorder cannot be attached")??;
        Ok(Self { child, lines })
    }

    /// Detaches, and says what was counted.
    fn stop(mut self) -> Result<Value> {
        drop(self.child.stdin.take());
        let mut last = String::new();
        for line in self.lines.by_ref() {
            last = line?;
        }
        self.child.wait()?;
        let said: Value = serde_json::from_str(&last).context("the recorder's last line")?;
        Ok(said["counts"].clone())
    }
}
