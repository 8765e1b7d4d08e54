//! `quietcore feed venue`: an exchange to connect to.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch, duration, interrupted};
use quietcore_facts::Facts;
use quietcore_measure::{Cell, Nanos, Section, Table};
use quietcore_sys::Host;

use crate::recording::Reader;
use crate::server::{
    Begin, Config, Cutting, Generator, Lines, Pace, Pieces, Script, Settings, Source, Stats, Tape,
    Venue as Server,
};

/// Serve a market: recorded or made up, over real TLS, WebSocket and REST, with whatever may go wrong
///
/// Speaks Binance USD-M's protocol (the /public and /market routes, combined streams, SUBSCRIBE, REST
/// snapshots, pings, limits) and OKX's books. The made-up market has true books, so that every snapshot,
/// change and quote fits the others; the same seed gives the same bytes. Its certificate is made at the
/// start and signed by an authority of its own: give roots.pem to the client. Needs no privilege.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore feed venue --certificates .          a market from a seed, at 127.0.0.1:9443
    quietcore feed venue --file btc.gz --rate 5    a recording, five times as fast
    quietcore feed venue --faults 'after 500 events gap 3; at 10s close 1006'
    quietcore feed venue --record ..100            TLS records of 1 to 100 bytes

FAULTS (one a line, or separated by `;`; @FILE reads them from a file):
    after N events FAULT [on SYMBOL@CHANNEL]       once, on the first connection that got so many
    every N events FAULT [on SYMBOL@CHANNEL]       again and again
    at TIME FAULT                                  on every connection, TIME after the market's start
    rest 429 retry-after 1s 2 times                requests are refused
    snapshot stale 1 times                         a snapshot of the past
  FAULT: gap N, duplicate N, reorder N, drop, close CODE, half-close, ping-flood N, slow BYTES,
    silence TIME, garbage, bad-text, oversize BYTES, fragment N, masked, key-update, corrupt")]
pub struct Venue {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9443")]
    listen: SocketAddr,

    /// The made-up market's seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1, conflicts_with = "file")]
    seed: u64,

    /// The made-up market's instruments
    #[arg(
        long,
        value_name = "SYMBOLS",
        num_args = 1..,
        value_delimiter = ',',
        default_value = "BTCUSDT,ETHUSDT,SOLUSDT,ADAUSDT",
        conflicts_with = "file",
    )]
    symbols: Vec<String>,

    /// Serve this recording instead
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// How many times as fast as it was; `as-read`: as fast as the slowest client reads
    #[arg(long, value_name = "RATE", default_value = "1", value_parser = pace)]
    rate: Pace,

    /// Begin when so many clients listen; 0: at once
    #[arg(long, value_name = "CLIENTS", default_value_t = 0)]
    wait_for: usize,

    /// Bytes per TLS record: whole, a number, or the most (..1400)
    #[arg(long, value_name = "BYTES", default_value = "whole")]
    record: Pieces,

    /// Bytes per TCP write: whole, a number, or the most (..1400)
    #[arg(long, value_name = "BYTES", default_value = "whole")]
    write: Pieces,

    /// Up to so many waiting messages go into one record
    #[arg(long, value_name = "MESSAGES", default_value_t = 1)]
    coalesce: usize,

    /// What goes wrong: a script, or @FILE
    #[arg(long, value_name = "SCRIPT", default_value = "", value_parser = script)]
    faults: Script,

    /// Where to write roots.pem, the authority that clients have to trust
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    certificates: PathBuf,

    /// How long a connection may live before the venue ends it
    #[arg(long, value_name = "DURATION", default_value = "86400s", value_parser = duration)]
    longest: Nanos,

    /// How long to serve [default: until Ctrl-C, or until a recording is over]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Nanos>,

    #[command(flatten)]
    output: Output,
}

fn pace(text: &str) -> Result<Pace, String> {
    let rate = |text: &str| text.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
    match text {
        "as-read" => Ok(Pace::AsRead),
        _ => rate(text).map(Pace::Rate).ok_or_else(|| "more than 0, or as-read".to_owned()),
    }
}

fn script(text: &str) -> Result<Script, String> {
    let script = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
        None => text.to_owned(),
    };
    script.parse().map_err(|error: crate::server::ScriptError| error.to_string())
}

impl Venue {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let facts = Facts::of(Host::live());
        let end = interrupted();
        let source = match &self.file {
            Some(path) => recorded(path)?,
            None => Source::Generated(Box::new(Generator::new(Settings {
                seed: self.seed,
                symbols: self.symbols.clone(),
                ..Settings::default()
            }))),
        };
        let symbols: Vec<_> = source.listings().into_iter().map(|of| of.symbol).collect();
        let venue = Server::start(source, self.config())?;
        let roots = self.certificates.join("roots.pem");
        let (address, roots) = (venue.address(), roots.display());
        let all = symbols.join(",");
        self.output.say(format_args!(
            "serving {all} at wss://{address}; Ctrl-C ends it\nquietcore feed run --url wss://{address} --roots {roots} --symbols {all}"
        ));
        let until = self.duration.map(|time| Instant::now() + Duration::from_nanos(time.0));
        let is_over = || {
            end.load(Ordering::Relaxed)
                || venue.has_ended()
                || until.is_some_and(|until| Instant::now() >= until)
        };
        while !is_over() {
            thread::sleep(Duration::from_millis(50));
        }
        let stats = venue.stop();
        let mut run = watch.stop(facts.summary());
        run.sections = vec![Section::Table(table(&stats))];
        sink.write(&run)?;
        Ok(Exit::Clean)
    }

    fn config(&self) -> Config {
        Config {
            listen: self.listen,
            pace: self.rate,
            begin: match self.wait_for {
                0 => Begin::AtOnce,
                clients => Begin::WithListeners(clients),
            },
            cutting: Cutting { record: self.record, write: self.write },
            coalesce: self.coalesce.max(1),
            faults: self.faults.clone(),
            certificates: Some(self.certificates.clone()),
            longest: Duration::from_nanos(self.longest.0),
            seed: self.seed,
            ..Config::default()
        }
    }
}

/// A recording as a market. What cannot be read of it is left out.
fn recorded(path: &Path) -> anyhow::Result<Source> {
    let mut reader = Reader::open(path)?;
    let lines: Lines = Box::new(std::iter::from_fn(move || {
        loop {
            match reader.next_line() {
                Ok(line) => return line.map(|line| (line.received_ns, line.json.to_vec())),
                Err(error) if error.is_final() => return None,
                Err(_) => {}
            }
        }
    }));
    let source = Source::Recorded(Box::new(Tape::new(lines)));
    let is_empty = source.listings().is_empty();
    (!is_empty).then_some(source).with_context(|| format!("{}: no book is in it", path.display()))
}

fn table(stats: &Stats) -> Table {
    let mut table = Table::new("venue", "What the venue did", &["what", "value"]);
    let mut row = |what: &str, value: u64| table.rows.push(vec![what.into(), Cell::from(value)]);
    row("TCP connections", stats.connections);
    row("TLS handshakes that failed", stats.failed_handshakes);
    row("REST requests", stats.requests);
    row("WebSocket upgrades", stats.upgrades);
    row("events of the market", stats.events);
    row("messages sent", stats.messages);
    row("clients closed for reading slowly", stats.slow_readers);
    row("faults", stats.faults);
    table
}
