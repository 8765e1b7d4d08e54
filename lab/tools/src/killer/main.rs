//! Kills a program at each of its real writes, to prove that what it leaves can be taken back.
//!
//! A *kill point* is a system call that changes something outside the program: a file, a name, a
//! knob, a socket's peer, a thread's CPUs, another process. They are numbered in the order in which
//! the program and its children make them (`points.rs` has the list and what is left out). The
//! number means the same again only if the program does the same again: one thread, one state.
//!
//! It stands on ptrace alone: no seccomp filter and no helper, so it runs in an initramfs.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use nix::sys::signal::{Signal, raise};

mod memory;
mod points;
mod trace;

use trace::{End, Order};

const EXIT_CODES: &str = "\
Exit codes:
  0   count: the program ended; at: it was killed at the point
  1   the program could not be run or traced
  2   wrong usage
  3   at: the program made fewer calls, and its end is printed

What the program writes to stdout goes to stderr; stdout has only what killer says.";

#[derive(Parser)]
#[command(about = "Kills a program at each of its real writes", after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Runs the program to its end and prints its kill points: number, system call, target
    Count {
        #[arg(required = true, last = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Runs the program and kills it when it enters the kill point of this number
    At {
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        number: u32,
        /// Let the call happen, and kill before the program learns of it
        #[arg(long)]
        after: bool,
        /// Kill the children, too; else they go on
        #[arg(long)]
        tree: bool,
        #[arg(required = true, last = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// What killer becomes in the process that it traces
    #[command(hide = true)]
    Traced {
        #[arg(required = true, last = true)]
        command: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().job) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("killer: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run(job: Job) -> Result<ExitCode> {
    match job {
        Job::Count { command } => {
            let end = trace::run(&command, None, |number, text| println!("{number} {text}"))?;
            eprintln!("killer: {end}");
            Ok(ExitCode::SUCCESS)
        }
        Job::At { number, after, tree, command } => {
            let order = Order { number, after, tree };
            // A call that is killed after it may end when others were made since.
            let mut last = String::from("none");
            let end = trace::run(&command, Some(&order), |n, text| {
                if n <= number {
                    last = format!("{n} {text}");
                }
            })?;
            let when = if after { "after" } else { "at" };
            match end {
                End::Killed => println!("killed {when} {last}"),
                _ => println!("not reached {number}, the last was {last}; {end}"),
            }
            Ok(if matches!(end, End::Killed) { ExitCode::SUCCESS } else { ExitCode::from(3) })
        }
        Job::Traced { command } => {
            raise(Signal::SIGSTOP).context("waiting to be traced")?;
            let (program, args) = command.split_first().context("no program")?;
            let error = Command::new(program).args(args).exec();
            Err(error).with_context(|| format!("running {}", Path::new(program).display()))
        }
    }
}
