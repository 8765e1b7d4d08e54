//! `quietcore schema`: the shape of what quietcore writes.

use clap::{Args, ValueEnum};
use quietcore_console::{Exit, print};

/// Print the JSON schema of a file that quietcore writes
#[derive(Args, Debug)]
pub struct Schema {
    /// Which file
    what: What,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// The record that every command writes with --format json
    Run,
}

impl Schema {
    pub fn run(self) -> anyhow::Result<Exit> {
        let What::Run = self.what;
        print(&quietcore_report::schema())?;
        Ok(Exit::Clean)
    }
}
