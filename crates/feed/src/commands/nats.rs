//! `quietcore feed nats`: what a running engine publishes, for consumers on other hosts.

use std::path::PathBuf;

use clap::Args;
use quietcore_console::{Output, duration};
use quietcore_measure::Nanos;

use super::watch::Wanted;

/// Send what `feed run --publish` shares to a NATS broker, for consumers on other hosts
///
/// One message per book, quote, trade and mark, with the subject PREFIX.SYMBOL.KIND and the object of
/// `feed watch --lines json`, which has a `sequence` per instrument: a gap in it is what was lost, here
/// or on the way. It is a process of its own because a client of a broker allocates, and what it maps
/// and unmaps interrupts all threads of its process; give it a CPU that is not isolated. Nothing is
/// kept while the broker is away: old prices are of no use. Ends with Ctrl-C, or when the engine does.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore feed nats                                        the only engine, a broker here
    quietcore feed nats 4711 --server nats://broker:4222 --what book,lost,trade
    quietcore feed nats --server tls://a:4222,tls://b:4222 --credentials feed.creds
    nats subscribe 'quietcore.feed.BTCUSDT.*'                  on the other host")]
#[cfg_attr(not(feature = "nats"), allow(dead_code, reason = "this build only knows the flags"))]
pub struct Nats {
    /// The engine's process [default: the only one that publishes]
    pid: Option<u32>,

    /// The broker, with user:password@ or token@ in front of the host where it asks for them; of
    /// several, one that answers
    ///
    /// Everybody on this host can read a command line: --credentials is safer.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        default_value = "nats://127.0.0.1:4222"
    )]
    server: Vec<String>,

    /// What every subject begins with
    #[arg(long, value_name = "PREFIX", default_value = "quietcore.feed", value_parser = prefix)]
    subject: String,

    #[command(flatten)]
    wanted: Wanted,

    /// A file of NATS credentials
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,

    /// Certificates (PEM) that are trusted as well as the system's
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,

    /// How long [default: until Ctrl-C, or until the engine ends]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Nanos>,

    #[command(flatten)]
    output: Output,
}

/// The first part of a subject: words between dots.
fn prefix(text: &str) -> Result<String, String> {
    let is_word = |word: &str| {
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"*>$".contains(c);
        !word.is_empty() && word.chars().all(is_plain)
    };
    match text.split('.').all(is_word) {
        true => Ok(text.to_owned()),
        false => Err("words with dots between them, as quietcore.feed".to_owned()),
    }
}

#[cfg(not(feature = "nats"))]
impl Nats {
    pub fn run(self) -> anyhow::Result<quietcore_console::Exit> {
        let why = "this quietcore-feed was built without NATS: \
                   cargo build --release -p quietcore-feed --features nats";
        Err(quietcore_console::NotPossible::new(why).into())
    }
}

#[cfg(feature = "nats")]
mod forward;
