//! `quietcore completions`: what a shell needs to complete the command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use quietcore_console::{Exit, print};

use crate::Cli;

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(
    after_help = "EXAMPLE:\n    quietcore completions bash > /etc/bash_completion.d/quietcore"
)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "quietcore", &mut script);
        print(&String::from_utf8(script)?)?;
        Ok(Exit::Clean)
    }
}
