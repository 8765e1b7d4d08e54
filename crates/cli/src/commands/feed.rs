//! `quietcore feed`: runs `quietcore-feed`, a program of its own.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
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
        let own = std::env::current_exe().context("where this program lies")?;
        let beside = own.with_file_name(PROGRAM);
        let program = if beside.exists() { beside } else { PathBuf::from(PROGRAM) };
        // Only returns where it could not be run.
        let error = Command::new(&program).args(self.args).exec();
        match error.kind() {
            ErrorKind::NotFound => bail!(
                "{PROGRAM} is neither beside {} nor on the PATH: install it with quietcore, or \
                 build it (cargo build --release -p {PROGRAM})",
                own.display()
            ),
            _ => Err(error).with_context(|| program.display().to_string()),
        }
    }
}
