//! `quietcore feed bench`: runs `quietcore-feed-bench`, a program of its own.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use quietcore_console::Exit;

const PROGRAM: &str = "quietcore-feed-bench";

/// Measure the engine beside the libraries that one would build it from
///
/// Runs quietcore-feed-bench, which lies beside this program or on the PATH: the engine links none
/// of what it is compared with. `quietcore feed bench --help` shows its options.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Bench {
    /// What to pass on
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Bench {
    pub fn run(self) -> anyhow::Result<Exit> {
        let own = std::env::current_exe().context("where this program lies")?;
        let beside = own.with_file_name(PROGRAM);
        let program = if beside.exists() { beside } else { PathBuf::from(PROGRAM) };
        // Only returns where it could not be run.
        let error = Command::new(&program).args(self.args).exec();
        match error.kind() {
            ErrorKind::NotFound => bail!(
                "{PROGRAM} is neither beside {} nor on the PATH: build it \
                 (RUSTFLAGS='-C target-cpu=native' cargo build --release -p {PROGRAM})",
                own.display()
            ),
            _ => Err(error).with_context(|| program.display().to_string()),
        }
    }
}
