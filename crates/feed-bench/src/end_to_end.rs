//! From a venue's send to the handler, over loopback and TLS: the engine, spinning, beside
//! tokio-tungstenite with rustls on a current-thread runtime, serde_json and `BTreeMap`.
//!
//! Both follow the same generated market by turns, each turn a venue and a connection of its own on
//! the same CPU; the venue has the others. Every message says when it was given to TLS. The engine's
//! handler does not see a message's text: what was sent when is read from its capture afterwards.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use futures_util::StreamExt;
use quietcore_feed::engine::{Address, Config, Engine, Handler, Mode, Rest};
use quietcore_feed::market::{Levels, Quote, Says, Side};
use quietcore_feed::recording::Reader;
use quietcore_feed::server::{self, Begin, Generator, Pace, Running, Source};
use quietcore_feed::sync::Market;
use quietcore_feed::tls::{Roots, certificates, client_config};
use quietcore_feed::venues::binance_usdm::BinanceUsdm;
use quietcore_feed::venues::{Speed, Venue, Wanted};
use quietcore_measure::{CpuSet, Distribution, Hist, HistConfig};
use quietcore_sys::clock::KernelClock;
use quietcore_sys::sched;
use tokio::net::TcpStream;
use tokio_tungstenite::{Connector, client_async_tls_with_config};
use tungstenite::Message;

use crate::market::settings;
use crate::trees::{Plain, Took};
use crate::turns::{Row, Target};

const SYMBOL: &str = "BTCUSDT";
/// How many times faster than it would be the market goes.
const PACE: f64 = 3.0;
/// Switched out more often than so many times a second, a spinning thread misses more messages than
/// a median bears.
const SWITCHES_PER_SECOND: u64 = 10;
/// One in so many messages of a turn, the first ones, is not counted.
const WARM_UP: usize = 5;

/// How it is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The reader's CPU.
    pub cpu: CpuSet,
    /// The venue's.
    pub others: CpuSet,
    /// Turns of each side.
    pub turns: usize,
    /// How long each.
    pub length: Duration,
    /// The market's seed.
    pub seed: u64,
}

/// A message at the handler.
#[derive(Clone, Copy, Debug)]
struct Seen {
    what: Took,
    at_ns: u64,
    sent_ns: Option<u64>,
    /// Best bid and ask after a change of the book.
    best: [Option<i64>; 2],
}

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// Three percentiles.
    pub rows: Vec<Row>,
    /// Both distributions.
    pub distributions: Vec<Distribution>,
    /// How often the engine's spinning thread was switched out.
    pub switches: u64,
}

/// Takes the turns.
pub fn follow_both(plan: &Plan, say: impl Fn(String)) -> anyhow::Result<Found> {
    // The venue's threads run where this one does.
    if !plan.others.is_empty() {
        sched::place(sched::CALLER, &plan.others)?;
    }
    let quantiles = [0.5, 0.99, 0.999];
    let mut found = [const { [const { Vec::new() }; 2] }; 3];
    let mut all = [(); 2].map(|()| Hist::new(HistConfig::default()));
    let mut switches = 0;
    for turn in 0..plan.turns {
        say(format!("end to end: turn {} of {}", turn + 1, plan.turns));
        let seed = plan.seed + turn as u64;
        let (ours, switched) = ours(plan, seed)?;
        switches += switched;
        let both = [ours, peer(plan, seed)?];
        check(&both)?;
        for (side, seen) in both.iter().enumerate() {
            let hist = hist(seen);
            ensure!(!hist.is_empty(), "no message came within {:?}", plan.length);
            for (q, found) in quantiles.iter().zip(&mut found) {
                found[side].push(hist.value_at(*q).unwrap_or(0) as f64);
            }
            all[side].merge(&hist)?;
        }
    }
    let peer = "tokio-tungstenite stack";
    let named = ["end to end, P50", "end to end, P99", "end to end, P99.9"];
    let targets = [Target::Ratio(0.50), Target::None, Target::None];
    let rows = named.iter().zip(&found).zip(targets);
    let rows = rows.map(|((what, [ours, theirs]), target)| {
        let row = Row::of(*what, ours, peer, theirs, target);
        let seconds = plan.turns as u64 * plan.length.as_secs();
        if switches > SWITCHES_PER_SECOND * seconds { row.disturbed() } else { row }
    });
    let rows = rows.collect();
    let of = |(hist, side): (&Hist, &str)| {
        Distribution::of("feed_bench_end_to_end", "ns", &[("stack", side)], hist)
    };
    let distributions = all.iter().zip(["quietcore, recv-spin", peer]).map(of).collect();
    Ok(Found { rows, distributions, switches })
}

fn hist(seen: &[Seen]) -> Hist {
    let mut hist = Hist::new(HistConfig::default());
    let times = seen.iter().filter_map(|seen| seen.at_ns.checked_sub(seen.sent_ns?));
    times.skip(seen.len() / WARM_UP).for_each(|time| hist.record(time));
    hist
}

/// After the same change both books have the same best prices.
fn check([ours, theirs]: &[Vec<Seen>; 2]) -> anyhow::Result<()> {
    let depth = |seen: &&Seen| matches!(seen.what, Took::Depth(_));
    let of_peer: HashMap<Took, _> =
        theirs.iter().filter(depth).map(|seen| (seen.what, seen.best)).collect();
    let mut compared = 0;
    for seen in ours.iter().filter(depth) {
        let Some(best) = of_peer.get(&seen.what) else { continue };
        compared += 1;
        ensure!(*best == seen.best, "after {:?} the best prices differ", seen.what);
    }
    ensure!(compared > 0, "no change of the book was seen by both");
    Ok(())
}

fn venue(folder: &Path, seed: u64) -> anyhow::Result<(Running, Address, Roots)> {
    let source = Source::Generated(Box::new(Generator::new(settings(seed))));
    let config = server::Config {
        pace: Pace::Rate(PACE),
        begin: Begin::WithListeners(1),
        has_send_time: true,
        certificates: Some(folder.to_owned()),
        ..server::Config::default()
    };
    let running = server::Venue::start(source, config)?;
    let roots = Roots::File(running.roots_path().context("a venue writes its roots")?.to_owned());
    let address = Address { host: "127.0.0.1".to_owned(), port: running.address().port() };
    Ok((running, address, roots))
}

/// Stamps what it is told, and hands it over in the end.
struct Stamps {
    seen: Vec<Seen>,
    to: Sender<Vec<Seen>>,
}

impl Handler for Stamps {
    fn book(&mut self, _: usize, market: &Market) {
        let at_ns = KernelClock::Realtime.now();
        let Some(book) = market.book() else { return };
        let best = [Side::Bid, Side::Ask].map(|side| book.best(side).map(|level| level.price.0));
        self.seen.push(Seen { what: Took::Depth(market.last()), at_ns, sent_ns: None, best });
    }

    fn quote(&mut self, _: usize, quote: &Quote) {
        let at_ns = KernelClock::Realtime.now();
        let what = Took::Quote(quote.update);
        self.seen.push(Seen { what, at_ns, sent_ns: None, best: [None; 2] });
    }
}

impl Drop for Stamps {
    fn drop(&mut self) {
        // Who does not listen any more has failed otherwise.
        let _ = self.to.send(std::mem::take(&mut self.seen));
    }
}

/// What was seen, and how often the thread was switched out.
fn ours(plan: &Plan, seed: u64) -> anyhow::Result<(Vec<Seen>, u64)> {
    let folder = tempfile::tempdir()?;
    let capture = folder.path().join("capture.txt");
    let (venue, address, roots) = venue(folder.path(), seed)?;
    let config = Config {
        wanted: Wanted { speed: Speed::Ms0, quotes: true, trades: false, mark: false },
        at: Some(address),
        roots,
        mode: Mode::RecvSpin,
        cpus: plan.cpu.clone(),
        capture: Some(capture.clone()),
        publish: false,
        ..Config::new(&BinanceUsdm, vec![SYMBOL.to_owned()])
    };
    let (to, seen) = channel();
    let stamps = Stamps { seen: Vec::with_capacity(1 << 20), to };
    let (engine, _watch) = Engine::new(config, stamps)?;
    let stop = AtomicBool::new(false);
    let ran = thread::scope(|scope| {
        let hot = scope.spawn(|| engine.run(&stop));
        thread::sleep(plan.length);
        stop.store(true, Ordering::Relaxed);
        hot.join()
    });
    let summary = ran.map_err(|_| anyhow!("the engine's thread panicked"))??;
    venue.stop();
    let mut seen = seen.recv().context("the engine handed nothing over")?;
    let sent = sent(&capture)?;
    seen.iter_mut().for_each(|seen| seen.sent_ns = sent.get(&seen.what).copied());
    Ok((seen, summary.usage.map_or(0, |usage| usage.involuntary_switches)))
}

/// When each message was sent, by what it was.
fn sent(capture: &Path) -> anyhow::Result<HashMap<Took, u64>> {
    let mut reader = Reader::open(capture)?;
    let mut levels = Levels::default();
    let mut sent = HashMap::new();
    while let Some(line) = reader.next_line()? {
        let what = match BinanceUsdm.scan(line.json, &mut levels)?.says {
            Says::Depth(depth) if !depth.is_snapshot => Took::Depth(depth.last),
            Says::Quote(quote) => Took::Quote(quote.update),
            _ => continue,
        };
        let tail = &line.json[line.json.len().saturating_sub(40)..];
        let tail = std::str::from_utf8(tail)?;
        let Some((_, number)) = tail.rsplit_once("\"sent\":") else { continue };
        sent.insert(what, number.trim_end_matches('}').parse()?);
    }
    Ok(sent)
}

fn peer(plan: &Plan, seed: u64) -> anyhow::Result<Vec<Seen>> {
    let folder = tempfile::tempdir()?;
    let (venue, address, roots) = venue(folder.path(), seed)?;
    let seen = thread::scope(|scope| {
        let follow = || {
            sched::place(sched::CALLER, &plan.cpu)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let most = plan.length + Duration::from_secs(10);
                tokio::time::timeout(most, follow(&address, &roots, plan)).await?
            })
        };
        scope.spawn(follow).join()
    });
    venue.stop();
    seen.map_err(|_| anyhow!("the peer's thread panicked"))?
}

async fn follow(address: &Address, roots: &Roots, plan: &Plan) -> anyhow::Result<Vec<Seen>> {
    let began = Instant::now();
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    let url = format!(
        "wss://{}/public/stream?streams=btcusdt@depth@0ms/btcusdt@bookTicker",
        address.authority()
    );
    let tls = Connector::Rustls(client_config(roots.clone())?);
    let (mut socket, _) = client_async_tls_with_config(url, stream, None, Some(tls)).await?;
    let snapshot = fetch(address, roots, plan.others.clone())?;
    let (mut plain, mut waiting, mut is_loaded) = (Plain::default(), Vec::new(), false);
    let mut seen = Vec::with_capacity(1 << 20);
    while began.elapsed() < plan.length {
        let text = match socket.next().await.context("the venue ended it")?? {
            Message::Text(text) => text,
            Message::Ping(_) | Message::Pong(_) => continue,
            other => bail!("{other:?} was not expected"),
        };
        if !is_loaded {
            let Ok(snapshot) = snapshot.try_recv() else {
                waiting.push(text);
                continue;
            };
            plain.load(&snapshot?)?;
            for text in waiting.drain(..) {
                plain.take(text.as_str())?;
            }
            is_loaded = true;
        }
        let (what, sent_ns) = plain.take(text.as_str())?;
        let at_ns = KernelClock::Realtime.now();
        let best = match what {
            Took::Depth(_) if plain.has_joined() => plain.trees.best(),
            Took::Depth(_) => continue,
            _ => [None; 2],
        };
        seen.push(Seen { what, at_ns, sent_ns, best });
    }
    ensure!(is_loaded, "no snapshot came");
    Ok(seen)
}

/// Asks for the whole book, on another thread and CPU.
fn fetch(
    address: &Address,
    roots: &Roots,
    cpus: CpuSet,
) -> anyhow::Result<Receiver<anyhow::Result<Vec<u8>>>> {
    let rest = Rest::new(address, &certificates(roots)?);
    let path = BinanceUsdm.snapshot(SYMBOL).context("a book is asked for")?.path;
    let (to, snapshot) = channel();
    thread::spawn(move || {
        if !cpus.is_empty() {
            // Where it cannot be, it disturbs the beginning a little.
            let _ = sched::place(sched::CALLER, &cpus);
        }
        let answer = rest.get(&path).map_err(anyhow::Error::from);
        // The turn may be over.
        let _ = to.send(answer);
    });
    Ok(snapshot)
}
