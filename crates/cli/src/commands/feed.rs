//! `quietcore feed`: runs `quietcore-feed`, a program of its own.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, anyhow};
use clap::Args;
use quietcore_console::Exit;

const PROGRAM: &str = "quietcore-feed";

/// The market-data engine: from the socket to the order book, every stage timed
///
/// Runs quietcore-feed, which lies beside this program or on the PATH: what tunes a host links no
/// TLS and no exchange. `quietcore feed --help` shows its commands.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Feed {
    /// What to pass on
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Feed {
    pub fn run(self) -> anyhow::Result<Exit> {
        let mut program = program()?;
        // Only returns where it could not be run.
        let error = program.args(self.args).exec();
        Err(not_run(&program, error))
    }
}

/// The program beside this one, else the one on the PATH.
pub(super) fn program() -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("where this program lies")?;
    let beside = own.with_file_name(PROGRAM);
    Ok(Command::new(if beside.exists() { beside } else { PathBuf::from(PROGRAM) }))
}

/// What to say where it could not be run.
pub(super) fn not_run(program: &Command, error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "{PROGRAM} is neither beside this program nor on the PATH: install it with quietcore, \
             or build it (cargo build --release -p {PROGRAM})"
        ),
        _ => anyhow!(error).context(program.get_program().to_string_lossy().into_owned()),
    }
}
