//! `quietcore confirm`: makes a change one for good.

use clap::Args;
use quietcore_console::{Exit, Output};
use quietcore_facts::Facts;
use quietcore_host::tuning::confirm;
use quietcore_sys::Host;

use super::tuning::{State, need_root};

/// Keep what was applied for a time, or a boot line that was tried
///
/// A change that has drifted is not confirmed, and a boot line only after it has booted: first
/// `verify`. Needs root.
#[derive(Args, Debug)]
pub struct Confirm {
    /// Confirm although items have drifted
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    state: State,

    #[command(flatten)]
    output: Output,
}

impl Confirm {
    pub fn run(self) -> anyhow::Result<Exit> {
        need_root()?;
        let facts = Facts::of(Host::live());
        let tuning = confirm(facts, &self.state.folder, self.force)?;
        self.output.say(format_args!("{} is kept for good", tuning.profile.name));
        Ok(Exit::Clean)
    }
}
