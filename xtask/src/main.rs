//! Chores of the workspace that need more than one cargo command: `cargo xtask <chore>`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod dist;
mod lab;
mod layers;
mod peer;
mod test;

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
    /// Everything that decides: lints, tests, licences, the tarball, guests
    Test(test::Args),
    /// Format, lints, layers and unit tests: for daily use
    Check,
    /// Fails on a dependency that does not point down, and on `unsafe` outside its place
    Layers,
    /// Shows the bad hosts of the test suite to another tool and to quietcore
    Peer(peer::Args),
    /// What the recorder costs, beside nothing and beside its peers
    Bench(bench::Args),
    /// Packs a tarball with a static binary, man pages and completions
    Dist(dist::Args),
}

fn main() -> ExitCode {
    match Cli::parse().chore {
        Chore::Lab(args) => lab::main(&args),
        Chore::Test(args) => test::main(&args),
        Chore::Check => test::check(),
        Chore::Layers => layers::main(),
        Chore::Peer(args) => peer::main(&args),
        Chore::Bench(args) => bench::main(&args),
        Chore::Dist(args) => dist::main(&args),
    }
}
