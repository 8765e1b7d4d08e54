//! Chores of the workspace that need more than one cargo command: `cargo xtask <chore>`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod dist;
mod lab;
mod layers;

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
    /// Fails on a dependency that does not point down, and on `unsafe` outside its place
    Layers,
    /// Packs a tarball with a static binary, man pages and completions
    Dist(dist::Args),
}

fn main() -> ExitCode {
    match Cli::parse().chore {
        Chore::Lab(args) => lab::main(&args),
        Chore::Layers => layers::main(),
        Chore::Dist(args) => dist::main(&args),
    }
}
