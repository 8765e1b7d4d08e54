//! Writes the man pages and shell completions into a folder: `manual DIR`.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use quietcore_cli::Cli;

fn main() -> anyhow::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| ".".into()));
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(Cli::command(), &man)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut Cli::command(), "quietcore", &completions)?;
    }
    Ok(())
}
