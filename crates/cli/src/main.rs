//! The `quietcore` command.
#![forbid(unsafe_code)]

use clap::Parser;
use quietcore_cli::Cli;
use quietcore_console::{Exit, run};

fn main() -> Exit {
    let cli = Cli::parse();
    run(|| cli.run())
}
