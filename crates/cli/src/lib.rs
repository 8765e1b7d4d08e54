//! The `quietcore` command. A library only so that its manual can be generated from it.
//!
//! A table of contents: every subcommand is one file of `commands/`.
#![forbid(unsafe_code)]

mod commands;

use clap::{Parser, Subcommand};
use quietcore_console::Exit;

use commands::{audit, compare, completions, exec, jitter, power, report, schema, tour};

/// Find what stands in a Linux host's latency tail.
///
/// Exit codes: 0 clean, 1 findings or a crossed threshold, 2 wrong usage or a failed operation,
/// 3 not possible on this host.
#[derive(Debug, Parser)]
#[command(name = "quietcore", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Tour(tour::Tour),
    Audit(audit::Audit),
    Power(power::Power),
    Jitter(jitter::Jitter),
    Exec(exec::Exec),
    Compare(compare::Compare),
    Report(report::Report),
    Schema(schema::Schema),
    Completions(completions::Completions),
}

impl Cli {
    /// Runs what was asked for.
    pub fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            Command::Tour(command) => command.run(),
            Command::Audit(command) => command.run(),
            Command::Power(command) => command.run(),
            Command::Jitter(command) => command.run(),
            Command::Exec(command) => command.run(),
            Command::Compare(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Schema(command) => command.run(),
            Command::Completions(command) => command.run(),
        }
    }
}
