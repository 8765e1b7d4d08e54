//! The `quietcore-feed` command.
#![forbid(unsafe_code)]

use clap::Parser;
use quietcore_console::{Exit, run};
use quietcore_feed::commands::Cli;

fn main() -> Exit {
    let cli = Cli::parse();
    run(|| cli.run())
}
