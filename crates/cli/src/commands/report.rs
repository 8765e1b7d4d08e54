//! `quietcore report`: any run, shown again.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use quietcore_console::{Exit, Output};

/// Show a run again, in any format
///
/// What was written with --format json holds everything that was measured: text, CSV and HTML can
/// be made from it at any time.
#[derive(Args, Debug)]
pub struct Report {
    /// The run, as written by `--format json` or `-o run.json`
    run: PathBuf,

    #[command(flatten)]
    output: Output,
}

impl Report {
    pub fn run(self) -> anyhow::Result<Exit> {
        let sink = self.output.open()?;
        let path = self.run.display();
        let bytes = fs::read(&self.run).with_context(|| format!("{path}"))?;
        let run = quietcore_report::parse(&bytes).with_context(|| format!("{path}"))?;
        sink.write(&run)?;
        Ok(Exit::Clean)
    }
}
