//! `quietcore feed run`: follows a venue and times every message.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use quietcore_console::{Exit, Output, Stopwatch, check_online, cpus, duration, interrupted};
use quietcore_facts::Facts;
use quietcore_measure::{CpuSet, Nanos, Section, Validity};
use quietcore_sys::Host;

use super::live::{Board, Screen};
use super::made_up::MadeUp;
use super::{DRAIN, sections, venue};
use crate::engine::{Address, Config, Engine, Mode, Rest, Summary, Watch, parse_url};
use crate::publish::Publisher;
use crate::server::Config as VenueConfig;
use crate::stages::{Kind, StageHists};
use crate::tls::{RecordPath, Roots, certificates};
use crate::venues::{Speed, Venue, Wanted, find_instrument};

/// Follow instruments of a venue: a proven book of each, and where every message's time went
///
/// One thread reads, decrypts, understands and applies everything. It counts S0 from the moment when
/// the kernel got the bytes until the thread ran, S1 until they were read, S2 TLS, S3 WebSocket, S4
/// JSON, S5 the book; what a message waited for others of the same read is `queue`. The stages of
/// every message add up to its total. A book is shown only while it is proven: every change since its
/// snapshot is in it. Needs no privilege; --fifo needs CAP_SYS_NICE or RLIMIT_RTPRIO. Ctrl-C ends it
/// and prints the result.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore feed run --demo --duration 5s                    a market made up, no internet
    quietcore feed run --symbols BTCUSDT,ETHUSDT               Binance USD-M futures, live
    quietcore feed run --symbols BTCUSDT --mode recv-spin --cpu 3
                                                               spin on an isolated CPU
    quietcore feed run --symbols BTCUSDT --capture btc.gz      keep every message with its time
    quietcore feed run --symbols BTCUSDT --url wss://127.0.0.1:9443 --roots venue/ca.pem
                                                               a replay venue (quietcore feed venue)")]
pub struct Run {
    /// The exchange
    #[arg(long, value_name = "VENUE", default_value = "binance-usdm", value_parser = venue())]
    venue: &'static dyn Venue,

    /// Its instruments, as it names them
    #[arg(
        long,
        value_name = "SYMBOLS",
        required_unless_present = "demo",
        num_args = 1..,
        value_delimiter = ',',
    )]
    symbols: Vec<String>,

    /// Follow a market that this process makes up and serves, over TLS on this host
    #[arg(long, conflicts_with_all = ["url", "roots", "venue"])]
    demo: bool,

    /// How often the venue sends changes of a book
    #[arg(long, value_name = "SPEED", default_value = "100ms")]
    depth: DepthSpeed,

    /// What of each instrument besides its book
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "quotes,trades")]
    with: Vec<With>,

    /// Another place than the venue's own, for streams and requests
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    url: Option<Address>,

    /// Believe the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,

    /// How the hot thread waits: block (sleeps), poll-spin, recv-spin (never sleep)
    #[arg(long, value_name = "MODE", default_value = "block", value_parser = mode())]
    mode: Mode,

    /// Let the kernel spin on the network card's queue for so long before it sleeps (SO_BUSY_POLL)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    busy_poll: Option<Nanos>,

    /// The CPU of the hot thread [default: any]
    #[arg(long, value_name = "CPU", value_parser = cpus)]
    cpu: Option<CpuSet>,

    /// Run the hot thread in SCHED_FIFO with this priority
    #[arg(long, value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,

    /// Who decrypts: own works in place, rustls is the library's own path
    #[arg(long, value_name = "WHO", default_value = "own")]
    tls: Decrypts,

    /// How long [default: until Ctrl-C]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Nanos>,

    /// Write every message with the time at which the kernel got it to FILE; gzipped if it ends in .gz
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,

    /// Share books, quotes and trades with other processes of this user (/dev/shm/quietcore-feed.PID;
    /// quietcore feed watch shows them)
    #[arg(long)]
    publish: bool,

    #[command(flatten)]
    output: Output,
}

/// How often changes of a book come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DepthSpeed {
    /// As they happen; not documented by Binance
    #[value(name = "0ms")]
    Ms0,
    #[value(name = "100ms")]
    Ms100,
    #[value(name = "250ms")]
    Ms250,
    #[value(name = "500ms")]
    Ms500,
}

/// What can be had besides the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum With {
    /// The best bid and ask: they prove the book's top, too
    Quotes,
    /// Trades
    Trades,
    /// Mark price and funding
    Mark,
    /// Nothing
    None,
}

/// Who decrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Decrypts {
    Own,
    Rustls,
}

pub(super) fn mode() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::ALL.map(Mode::name))
        .map(|name| Mode::ALL.into_iter().find(|mode| mode.name() == name).unwrap_or_default())
}

/// What the messages of a run were.
#[derive(Debug, Default)]
pub(super) struct Timed {
    pub all: StageHists,
    pub kinds: [StageHists; 4],
}

impl Run {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let facts = Facts::of(Host::live());
        let mut config = self.config();
        let market = match self.demo {
            true => Some(MadeUp::start(&config.symbols, VenueConfig::default())?),
            false => None,
        };
        if let Some(market) = &market {
            config = market.followed(config);
        }
        if let Some(cpu) = &self.cpu {
            check_online(cpu, &facts.cpus().online).map_err(|why| anyhow!(why))?;
        }
        self.check_instruments(&config)?;
        let end = interrupted();
        let (mode, symbols) = (config.mode, config.symbols.clone());
        let board = Board::new(symbols.len());
        let publisher = self.publish.then(|| Publisher::new(&symbols)).transpose()?;
        let (engine, mut seen) = Engine::new(config, (board.handler(), publisher))?;
        self.output.say(format_args!("clock: {}", seen.clock));
        let stop = Arc::new(AtomicBool::new(false));
        let hot = thread::Builder::new().name("feed-hot".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || engine.run(&stop)
        });
        let hot = hot.context("starting the hot thread")?;
        let mut timed = Timed::default();
        let mut screen = Screen::new(&self.output, &symbols);
        let until = self.duration.map(|d| Instant::now() + Duration::from_nanos(d.0));
        let is_over = || {
            end.load(Ordering::Relaxed)
                || hot.is_finished()
                || until.is_some_and(|until| Instant::now() >= until)
        };
        while !is_over() {
            thread::sleep(DRAIN);
            drain(&mut seen, &mut timed);
            seen.notices.try_iter().for_each(|notice| screen.say(&notice));
            screen.show(&board, &timed);
        }
        stop.store(true, Ordering::Relaxed);
        let summary = hot.join().map_err(|_| anyhow!("the hot thread died"))??;
        drain(&mut seen, &mut timed);
        screen.clear();
        seen.notices.try_iter().for_each(|notice| screen.say(&notice));
        let exit = Exit::findings(sections::is_bad(&summary));
        let mut run = watch.stop(facts.summary());
        let (validity, parts) = result(&summary, &timed, &seen, mode, &symbols);
        run.validity = validity;
        run.sections = parts;
        sink.write(&run)?;
        Ok(exit)
    }

    /// An instrument that the venue does not have is said at once, and not when nothing comes.
    fn check_instruments(&self, config: &Config) -> anyhow::Result<()> {
        let roots = certificates(&config.roots)?;
        let rest = Rest::new(&config.rest_address(), &roots);
        let symbols: Vec<_> = config.symbols.iter().map(String::as_str).collect();
        let mut instruments = Vec::new();
        for request in self.venue.instruments(&symbols) {
            match rest.get(&request.path) {
                Ok(answer) => instruments.extend(self.venue.read_instruments(&answer)?),
                Err(error) => {
                    self.output.say(format_args!("the instruments cannot be checked: {error}"));
                    return Ok(());
                }
            }
        }
        for symbol in symbols {
            find_instrument(&instruments, symbol, self.venue.title())?;
        }
        Ok(())
    }

    fn config(&self) -> Config {
        let made_up = || vec!["BTCUSDT".to_owned(), "ETHUSDT".to_owned()];
        let symbols = if self.symbols.is_empty() { made_up() } else { self.symbols.clone() };
        let with = |what| self.with.contains(&what);
        let wanted = Wanted {
            speed: match self.depth {
                DepthSpeed::Ms0 => Speed::Ms0,
                DepthSpeed::Ms100 => Speed::Ms100,
                DepthSpeed::Ms250 => Speed::Ms250,
                DepthSpeed::Ms500 => Speed::Ms500,
            },
            quotes: with(With::Quotes),
            trades: with(With::Trades),
            mark: with(With::Mark),
        };
        Config {
            wanted,
            at: self.url.clone(),
            roots: self.roots.clone().map_or(Roots::System, Roots::File),
            record_path: match self.tls {
                Decrypts::Own => RecordPath::Own,
                Decrypts::Rustls => RecordPath::Rustls,
            },
            mode: self.mode,
            busy_poll: self.busy_poll.map(|time| Duration::from_nanos(time.0)),
            cpus: self.cpu.clone().unwrap_or_default(),
            fifo: self.fifo,
            capture: self.capture.clone(),
            ..Config::new(self.venue, symbols)
        }
    }
}

fn drain(watch: &mut Watch, timed: &mut Timed) {
    let rate = watch.rate;
    watch.drain.drain(|passed| {
        let times = passed.way.times(rate);
        timed.all.record(&times);
        if let Some(at) = Kind::ALL.iter().position(|kind| *kind == passed.kind) {
            timed.kinds[at].record(&times);
        }
    });
}

fn result(
    summary: &Summary,
    timed: &Timed,
    watch: &Watch,
    mode: Mode,
    symbols: &[String],
) -> (Validity, Vec<Section>) {
    let validity = sections::validity(summary, &timed.all, watch.drain.missed(), symbols);
    let mut parts = sections::stages(&timed.all, mode);
    parts.extend(sections::kinds(&timed.kinds));
    parts.push(Section::Table(sections::books(summary, symbols)));
    parts.push(Section::Table(sections::engine(summary, &timed.all, mode, &watch.clock)));
    (validity, parts)
}
