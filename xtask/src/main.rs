//! Chores of the workspace that need more than one cargo command: `cargo xtask <chore>`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod lab;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the workspace")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Boots Linux guests under QEMU and tests quietcore inside them
    Lab(lab::Args),
}

fn main() -> ExitCode {
    match Cli::parse().chore {
        Chore::Lab(args) => lab::main(&args),
    }
}
