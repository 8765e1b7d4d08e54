//! `quietcore compare`: two runs side by side.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch};
use quietcore_measure::{Run, Section, compare};

/// Say what changed from run A to run B: findings, and percentiles beyond chance
///
/// A finding is worse if it fails in B and did not in A, or warns in B and passed in A. A
/// percentile is worse (or better) only if the confidence intervals of both runs do not touch;
/// otherwise it is the same, or not provable from so few values. Tables are not compared. Exits
/// with 1 if anything got worse.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore audit -o before.json; …; quietcore audit -o after.json
    quietcore compare before.json after.json          in CI: fails when something got worse
    quietcore compare host-a.json host-b.json         two hosts")]
pub struct Compare {
    /// The run before, as written by `--format json` or `-o a.json`
    a: PathBuf,

    /// The run after
    b: PathBuf,

    #[command(flatten)]
    output: Output,
}

impl Compare {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let (a, b) = (load(&self.a)?, load(&self.b)?);
        let names = [self.a.display().to_string(), self.b.display().to_string()];
        let compared = compare(&a, &b, [&names[0], &names[1]])?;
        let worse = compared.is_worse();
        let mut run = watch.stop(b.host);
        run.validity = compared.validity;
        run.sections.push(Section::Comparison(compared.comparison));
        sink.write(&run)?;
        Ok(Exit::findings(worse))
    }
}

fn load(path: &Path) -> anyhow::Result<Run> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    quietcore_report::parse(&bytes).with_context(|| path.display().to_string())
}
