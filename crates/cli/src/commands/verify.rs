//! `quietcore verify`: whether what was applied still holds.

use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch};
use quietcore_facts::Facts;
use quietcore_host::tuning::verify;
use quietcore_measure::Section;
use quietcore_sys::Host;

use super::tuning::State;

/// Read again what was applied: one line per item, exit 1 on drift
///
/// Besides the values, the checks of each knob are asked for the effect: that CPUs are isolated,
/// that interrupts arrive elsewhere. Changes nothing; root sees more.
#[derive(Args, Debug)]
pub struct Verify {
    #[command(flatten)]
    state: State,

    #[command(flatten)]
    output: Output,
}

impl Verify {
    pub fn run(self) -> anyhow::Result<Exit> {
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
