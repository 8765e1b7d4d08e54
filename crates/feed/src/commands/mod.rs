//! The `quietcore-feed` command: every subcommand is one file.

mod bench;
mod capacity;
mod live;
mod made_up;
mod nats;
mod replay;
mod run;
mod sections;
mod serve;
mod watch;

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};
use quietcore_console::Exit;

use crate::venues::{self, Venue};

/// How often what the hot thread has recorded is fetched: its ring holds that much of 800,000 messages a
/// second.
const DRAIN: Duration = Duration::from_millis(5);

/// The market-data engine: from the socket to the order book, every stage timed.
///
/// Exit codes: 0 clean, 1 a book that is not proven or not what the venue says, 2 wrong usage or a
/// failed operation, 3 not possible on this host.
#[derive(Debug, Parser)]
#[command(name = "quietcore-feed", bin_name = "quietcore feed", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Venue(serve::Venue),
    Replay(replay::Replay),
    Watch(watch::Watch),
    Nats(nats::Nats),
    Capacity(capacity::Capacity),
    Bench(bench::Bench),
}

impl Cli {
    /// Runs what was asked for.
    ///
    /// # Errors
    /// What went wrong, for people.
    pub fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            Command::Run(command) => command.run(),
            Command::Venue(command) => command.run(),
            Command::Replay(command) => command.run(),
            Command::Watch(command) => command.run(),
            Command::Nats(command) => command.run(),
            Command::Capacity(command) => command.run(),
            Command::Bench(command) => command.run(),
        }
    }
}

/// A venue by its name.
fn venue() -> impl TypedValueParser<Value = &'static dyn Venue> {
    let names = venues::ALL.iter().map(|venue| venue.name());
    PossibleValuesParser::new(names).try_map(|name| venues::find(&name))
}
