//! quietcore: find what stands in a Linux host's latency tail.
//!
//! A table of contents: every subcommand is one file of `commands/`.
#![forbid(unsafe_code)]

mod commands;

use clap::{Parser, Subcommand};
use quietcore_console::{Exit, run};

use commands::{audit, report, schema};

/// Find what stands in a Linux host's latency tail.
///
/// Exit codes: 0 clean, 1 findings or a crossed threshold, 2 wrong usage or a failed operation,
/// 3 not possible on this host.
#[derive(Debug, Parser)]
#[command(name = "quietcore", version, propagate_version = true, infer_subcommands = false)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Audit(audit::Audit),
    Report(report::Report),
    Schema(schema::Schema),
}

fn main() -> Exit {
    let cli = Cli::parse();
    run(|| match cli.command {
        Command::Audit(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Schema(command) => command.run(),
    })
}
