//! `quietcore feed watch`: what a running engine publishes, read in this process.

use std::fmt::Write as _;
use std::fs;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use quietcore_console::{Exit, SinkError, duration, interrupted, print};
use quietcore_measure::Nanos;
use quietcore_sys::clock::KernelClock;
use serde_json::{Value, json};

use crate::market::{Level, Side};
use crate::publish::{Event, Follower, What, is_published};

/// Between two looks. A strategy does not sleep.
const PAUSE: Duration = Duration::from_millis(1);

/// Print what `feed run --publish` shares with other processes
///
/// One line per book, quote, trade and mark, as they come: proof that a process of its own sees what
/// the engine knows, and how old that is by then (a look a millisecond). Strategies use the library
/// (quietcore_feed::publish::Follower) or read the memory in any language: its layout is documented
/// there. Ends with Ctrl-C, or when the engine does. Only the engine's user may read it.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore feed watch                                       the only engine of this host
    quietcore feed watch 4711 --what book,lost                 books of process 4711
    quietcore feed watch --lines json | jq .trade              every event as a line of JSON")]
pub struct Watch {
    /// The engine's process [default: the only one that publishes]
    pid: Option<u32>,

    #[command(flatten)]
    wanted: Wanted,

    /// How a line looks
    #[arg(long, value_name = "FORM", default_value = "text")]
    lines: Lines,

    /// How long [default: until Ctrl-C, or until the engine ends]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Nanos>,
}

/// Which events.
#[derive(Args, Debug)]
pub(super) struct Wanted {
    /// Which events
    #[arg(
        long,
        value_name = "WHAT",
        value_delimiter = ',',
        default_value = "book,lost,quote,trade,mark"
    )]
    what: Vec<Kind>,

    /// Only these instruments
    #[arg(long, value_name = "SYMBOLS", value_delimiter = ',')]
    symbols: Vec<String>,
}

impl Wanted {
    pub fn takes(&self, event: &Event<'_>) -> bool {
        self.what.contains(&kind(event))
            && (self.symbols.is_empty()
                || self.symbols.iter().any(|symbol| symbol.eq_ignore_ascii_case(event.symbol)))
    }
}

/// What of an instrument there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The best levels of a proven book
    Book,
    /// A book is not proven any more
    Lost,
    /// The venue's best bid and ask
    Quote,
    /// Trades
    Trade,
    /// Mark price and funding
    Mark,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lines {
    /// For people
    Text,
    /// An object
    Json,
}

impl Watch {
    pub fn run(self) -> anyhow::Result<Exit> {
        let pid = self.pid.map_or_else(only, Ok)?;
        let mut follower =
            Follower::open(pid).context("no engine publishes there: feed run --publish does")?;
        let end = interrupted();
        let until = self.duration.map(|time| Instant::now() + Duration::from_nanos(time.0));
        let is_over =
            || end.load(Ordering::Relaxed) || until.is_some_and(|at| Instant::now() >= at);
        let mut text = String::new();
        loop {
            // Asked for first: what was published until the end is printed, too.
            let is_last = is_over() || !is_published(pid);
            text.clear();
            follower.read(|event| self.add(event, &mut text))?;
            match print(&text) {
                Err(SinkError::ReaderGone) => break,
                printed => printed?,
            }
            if is_last {
                break;
            }
            thread::sleep(PAUSE);
        }
        if follower.missed() > 0 {
            eprintln!("{} were overwritten before they were read", follower.missed());
        }
        Ok(Exit::Clean)
    }

    fn add(&self, event: &Event<'_>, text: &mut String) {
        if !self.wanted.takes(event) {
            return;
        }
        let age = age(event);
        // A String takes everything.
        let _ = match self.lines {
            Lines::Text => writeln!(text, "{:<14} {}  ({age} ago)", event.symbol, words(event)),
            Lines::Json => writeln!(text, "{}", object(event, age).1),
        };
    }
}

/// How old it is.
pub(super) fn age(event: &Event<'_>) -> Nanos {
    Nanos(KernelClock::Monotonic.now().saturating_sub(event.published_ns))
}

/// The process that publishes, where there is no other.
pub(super) fn only() -> anyhow::Result<u32> {
    let folder = fs::read_dir("/dev/shm").context("/dev/shm")?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids: Vec<u32> =
        names.filter_map(|name| name.strip_prefix("quietcore-feed.")?.parse().ok()).collect();
    match pids[..] {
        [pid] => Ok(pid),
        [] => bail!("no engine publishes on this host: start one with feed run --publish"),
        _ => {
            let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
            bail!("several engines publish, say which: {}", pids.join(", "))
        }
    }
}

fn kind(event: &Event<'_>) -> Kind {
    match event.what {
        What::Book { .. } => Kind::Book,
        What::Lost => Kind::Lost,
        What::Quote(_) => Kind::Quote,
        What::Trade(_) => Kind::Trade,
        What::Mark(_) => Kind::Mark,
    }
}

fn words(event: &Event<'_>) -> String {
    let level = |level: &Level| format!("{} × {}", level.price, level.quantity);
    let best = |levels: &[Level]| levels.first().map_or_else(|| "none".to_owned(), level);
    match &event.what {
        What::Book { last, levels } => {
            format!("book  {last}  {}  {}", best(&levels.bids), best(&levels.asks))
        }
        What::Lost => "lost  the book is not proven".to_owned(),
        What::Quote(quote) => {
            format!("quote {}  {}  {}", quote.update, level(&quote.bid), level(&quote.ask))
        }
        What::Trade(trade) => {
            let side = taker(trade.taker);
            format!("trade {}  {} × {}  {side}", trade.id, trade.price, trade.quantity)
        }
        What::Mark(mark) => {
            format!("mark  {}  index {}  funding {}", mark.price, mark.index, mark.funding)
        }
    }
}

fn taker(side: Side) -> &'static str {
    match side {
        Side::Bid => "bought",
        Side::Ask => "sold",
    }
}

/// Its kind, and all of it. Numbers that are exact are text, as the venues write them.
pub(super) fn object(event: &Event<'_>, age: Nanos) -> (&'static str, Value) {
    let level = |level: &Level| json!([level.price.to_string(), level.quantity.to_string()]);
    let side = |levels: &[Level]| levels.iter().map(level).collect::<Vec<_>>();
    let (name, what) = match &event.what {
        What::Book { last, levels } => {
            let (bids, asks) = (side(&levels.bids), side(&levels.asks));
            ("book", json!({ "last": last, "bids": bids, "asks": asks }))
        }
        What::Lost => ("lost", json!(true)),
        What::Quote(quote) => {
            let (bid, ask) = (level(&quote.bid), level(&quote.ask));
            let (update, time_ms) = (quote.update, quote.time_ms);
            ("quote", json!({ "update": update, "time_ms": time_ms, "bid": bid, "ask": ask }))
        }
        What::Trade(trade) => {
            let (price, quantity) = (trade.price.to_string(), trade.quantity.to_string());
            let (id, time_ms, taker) = (trade.id, trade.time_ms, taker(trade.taker));
            let trade = json!({
                "id": id, "time_ms": time_ms, "price": price, "quantity": quantity, "taker": taker
            });
            ("trade", trade)
        }
        What::Mark(mark) => {
            let [price, index, funding] =
                [mark.price, mark.index, mark.funding].map(|of| of.to_string());
            let time_ms = mark.time_ms;
            (
                "mark",
                json!({ "time_ms": time_ms, "price": price, "index": index, "funding": funding }),
            )
        }
    };
    let object = json!({
        "symbol": event.symbol, "published_ns": event.published_ns, "age_ns": age.0, name: what
    });
    (name, object)
}
