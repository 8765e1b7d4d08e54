//! `quietcore verify`: whether what was applied still holds.

mod watch;

use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch};
use quietcore_facts::Facts;
use quietcore_host::tuning::verify;
use quietcore_measure::{Nanos, Section};
use quietcore_sys::Host;

use super::power::seconds;
use super::tuning::State;

/// Read again what was applied: one line per item, exit 1 on drift
///
/// Besides the values, the checks of each knob are asked for the effect: that CPUs are isolated,
/// that interrupts arrive elsewhere. Changes nothing; root sees more.
///
/// With --watch it stays and tells every drift as it happens, and who did it: one line on stdout
/// (JSON lines with --format json), another when it is set right, the whole at the end. Values are
/// watched, not effects. A file's writer is named by fanotify (CAP_SYS_ADMIN; CAP_NET_ADMIN for
/// those that have ended at once); everything is read once a second besides. It keeps off isolated
/// CPUs.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore verify                                    once
    quietcore verify --watch                            until Ctrl-C
    quietcore verify --watch 3600 --format json -o drift.json")]
pub struct Verify {
    /// Stay and tell every drift and its author, for so many seconds [default: until Ctrl-C]
    #[arg(
        long,
        value_name = "SEC",
        num_args = 0..=1,
        default_missing_value = "2000000",
        value_parser = seconds,
    )]
    watch: Option<Nanos>,

    #[command(flatten)]
    state: State,

    #[command(flatten)]
    output: Output,
}

impl Verify {
    pub fn run(self) -> anyhow::Result<Exit> {
        if let Some(time) = self.watch {
            return watch::watch(&self.state.folder, time, &self.output);
        }
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let facts = Facts::of(Host::live());
        let Some(standing) = verify(&facts, &self.state.folder)? else {
            self.output.say("nothing is in force");
            return Ok(Exit::Clean);
        };
        let drift = standing.lines.iter().any(|line| line.is_drift());
        let mut run = watch.stop(facts.summary());
        run.sections.push(Section::Table(standing.table()));
        sink.write(&run)?;
        Ok(Exit::findings(drift))
    }
}
