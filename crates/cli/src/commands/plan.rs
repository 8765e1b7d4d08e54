//! `quietcore plan`: what a profile would change.

use std::path::PathBuf;

use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch};
use quietcore_facts::Facts;
use quietcore_host::plan::plan;
use quietcore_measure::Section;
use quietcore_sys::Host;

use super::tuning::Choice;

/// Show what a profile would change on this host, and why: before, after, price, risk
///
/// Reads only; `apply` with the same arguments writes what is shown and nothing else. Exits with 1
/// if anything would change, 0 if the host is as the profile wants it.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore plan                                      the profile low-latency
    quietcore plan --profile trading --cpus 2-5         CPUs of their own
    quietcore plan --profile ./own.toml --set swappiness=1 --set governor=untouched
    quietcore plan --root host.json --profile trading   a recorded host, on any machine")]
pub struct Plan {
    #[command(flatten)]
    choice: Choice,

    /// Plan for a recorded host
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

impl Plan {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let profile = self.choice.profile()?;
        let host = match &self.root {
            Some(path) => Host::from_path(path)?,
            None => Host::live(),
        };
        let facts = Facts::of(host);
        let chosen = self.choice.cores(&facts, &profile)?;
        let plan = plan(&facts, &profile, &chosen.cores, self.choice.reach());
        let mut run = watch.stop(facts.summary());
        if profile.isolates {
            run.sections.push(Section::Table(chosen.table()));
        }
        run.sections.extend(plan.tables().into_iter().map(Section::Table));
        sink.write(&run)?;
        Ok(Exit::findings(!plan.is_empty()))
    }
}
