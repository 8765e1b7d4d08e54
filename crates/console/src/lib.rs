//! How every binary of quietcore speaks: results on stdout, talk on stderr, one set of exit codes.
//!
//! A `main` is one line, `console::run(|| …)`; a subcommand flattens [`Output`] into its
//! arguments, calls [`Output::open`] before it starts to measure and [`Sink::write`] at the end.
#![forbid(unsafe_code)]

mod exit;
mod interrupt;
mod output;
mod parse;
mod progress;
mod sink;
mod stopwatch;

pub use exit::{Exit, NotPossible, run};
pub use interrupt::interrupted;
pub use output::Output;
pub use parse::{check_online, cpus, duration};
pub use progress::Progress;
pub use sink::{Place, Sink, SinkError, print, write};
pub use stopwatch::{Stopwatch, new_run};
