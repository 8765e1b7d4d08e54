//! The file that `spikes`, `explain` and `jitter --explain` write for Perfetto.

use std::path::PathBuf;

use clap::Args;
use quietcore_console::{Place, SinkError};
use quietcore_measure::Run;
use quietcore_report::perfetto;

/// A time line for another program.
#[derive(Args, Debug)]
pub struct Trace {
    /// Also write the spikes as a time line for <https://ui.perfetto.dev>
    ///
    /// Those that the result holds, which are the longest where there are many: each on its thread, and
    /// in it what it was made of, with the evidence.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

impl Trace {
    /// Whether there is a file to be written.
    pub fn is_wanted(&self) -> bool {
        self.perfetto.is_some()
    }

    /// Tries the place before anything is measured.
    pub fn open(&self) -> Result<OpenTrace, SinkError> {
        let place = self.perfetto.as_deref().map(|path| Place::open(Some(path)));
        Ok(OpenTrace(place.transpose()?))
    }
}

/// A file that can be written to, where one was asked for.
#[derive(Debug)]
pub struct OpenTrace(Option<Place>);

impl OpenTrace {
    /// Writes a run's spikes.
    pub fn write(self, run: &Run) -> anyhow::Result<()> {
        match self.0 {
            Some(place) => Ok(place.write(&perfetto(run)?)?),
            None => Ok(()),
        }
    }
}
