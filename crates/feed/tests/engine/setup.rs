//! A venue, an engine that follows it, and what the engine's strategy is told.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quietcore_feed::engine::{
    Address, Config, ConfigError, Engine, Handler, Notice, Summary, Watch,
};
use quietcore_feed::market::{Quote, Trade};
use quietcore_feed::server::{
    Begin, Channel, Config as VenueConfig, Generator, Pace, Running, Settings, Source, Venue,
};
use quietcore_feed::stages::StageHists;
use quietcore_feed::sync::Market;
use quietcore_feed::tls::Roots;
use quietcore_feed::venues::find;
use tempfile::TempDir;

use super::truth::{Top, Truth, numbers, top};

/// Long enough for any machine: only a failing test ever waits for it.
const PATIENCE: Duration = Duration::from_secs(150);

/// What a strategy was told.
#[derive(Debug, Default)]
pub struct Seen {
    /// Every book that was shown: of whom, its last update, its best levels.
    pub books: Vec<(usize, u64, Top)>,
    /// The same without levels, with a mark where a book was lost.
    pub updates: [Vec<Option<u64>>; 2],
    pub quotes: [Vec<u64>; 2],
    pub trades: [Vec<u64>; 2],
    pub lost: [u64; 2],
}

impl Seen {
    /// Books shown of an instrument.
    pub fn shown(&self, symbol: usize) -> usize {
        self.updates[symbol].iter().flatten().count()
    }

    /// Books shown of each since the last of that instrument was lost.
    pub fn fresh(&self) -> usize {
        let since = |updates: &Vec<Option<u64>>| {
            updates.iter().rev().take_while(|update| update.is_some()).count()
        };
        self.updates.iter().map(since).min().unwrap_or(0)
    }
}

struct Witness(Arc<Mutex<Seen>>);

impl Handler for Witness {
    fn book(&mut self, symbol: usize, market: &Market) {
        let book = market.book().unwrap();
        let mut seen = self.0.lock().unwrap();
        seen.books.push((symbol, market.last(), top(book)));
        seen.updates[symbol].push(Some(market.last()));
    }

    fn lost(&mut self, symbol: usize) {
        let mut seen = self.0.lock().unwrap();
        seen.updates[symbol].push(None);
        seen.lost[symbol] += 1;
    }

    fn quote(&mut self, symbol: usize, quote: &Quote) {
        self.0.lock().unwrap().quotes[symbol].push(quote.update);
    }

    fn trade(&mut self, symbol: usize, trade: &Trade) {
        self.0.lock().unwrap().trades[symbol].push(trade.id);
    }
}

/// A venue and what it takes to trust it.
pub struct Place {
    pub venue: Running,
    pub settings: Settings,
    pub folder: TempDir,
}

impl Place {
    /// A market made from a seed.
    pub fn new(config: VenueConfig) -> Self {
        Self::with(config, Settings { seed: 7, ..Settings::default() })
    }

    pub fn with(config: VenueConfig, settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::Generated(Box::new(Generator::new(settings.clone())));
        let certificates = Some(folder.path().to_owned());
        let venue = Venue::start(source, VenueConfig { certificates, ..config }).unwrap();
        Self { venue, settings, folder }
    }

    /// An engine for all instruments there.
    pub fn config(&self) -> Config {
        self.config_for("binance-usdm", self.settings.symbols.clone())
    }

    pub fn config_for(&self, venue: &str, symbols: Vec<String>) -> Config {
        let address = self.venue.address();
        Config {
            at: Some(Address { host: address.ip().to_string(), port: address.port() }),
            roots: Roots::File(self.venue.roots_path().unwrap().to_owned()),
            publish: false,
            ..Config::new(find(venue).unwrap(), symbols)
        }
    }

    /// Compares every book that was shown with what it was in truth.
    pub fn check_books(&self, seen: &Seen, channel: Channel) {
        let mut truth = Truth::new(&self.settings, channel);
        assert!(!seen.books.is_empty());
        for (symbol, update, shown) in &seen.books {
            let is = truth.top(*symbol, *update);
            assert!(is == Some(shown), "instrument {symbol} at {update}: {shown:?} for {is:?}");
        }
    }

    /// Compares the numbers of all quotes or trades with the market's own: none is missing, none
    /// came twice.
    pub fn check_numbers(&self, seen: &[u64], channel: Channel, key: &str, symbol: usize) {
        let from_to = (seen[0], seen[seen.len() - 1]);
        let all = numbers(&self.settings, channel, key, symbol, from_to);
        let differs = (0..all.len()).find(|&at| seen.get(at) != Some(&all[at]));
        assert!(
            seen == all,
            "{channel:?}: {} seen, {} are; {:?}",
            seen.len(),
            all.len(),
            differs.map(|at| (at, all.get(at..at + 5), seen.get(at..at + 5)))
        );
    }
}

/// A venue that goes as fast as the engine reads, from its two connections on.
pub fn as_read(faults: &str) -> VenueConfig {
    VenueConfig {
        pace: Pace::AsRead,
        begin: Begin::WithListeners(2),
        faults: faults.parse().unwrap(),
        queue: 64,
        ..VenueConfig::default()
    }
}

/// A venue that goes on while a connection is opened anew.
pub fn steady(faults: &str) -> VenueConfig {
    VenueConfig { pace: Pace::Rate(8.0), queue: 1_000_000, ..as_read(faults) }
}

/// An engine that runs.
pub struct Followed {
    stop: Arc<AtomicBool>,
    hot: Option<JoinHandle<Result<Summary, ConfigError>>>,
    watch: Watch,
    pub seen: Arc<Mutex<Seen>>,
    pub notices: Vec<Notice>,
    pub stages: StageHists,
}

/// What it came to.
pub struct Outcome {
    pub summary: Summary,
    pub seen: Seen,
    pub notices: Vec<Notice>,
    pub stages: StageHists,
    pub missed: u64,
}

impl Followed {
    pub fn start(config: Config) -> Self {
        Self::start_with(config, ())
    }

    /// With another strategy beside the one that remembers what it was told.
    pub fn start_with(config: Config, other: impl Handler + Send + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (engine, watch) = Engine::new(config, (Witness(Arc::clone(&seen)), other)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let hot = thread::spawn({
            let stop = Arc::clone(&stop);
            move || engine.run(&stop)
        });
        let stages = StageHists::default();
        Self { stop, hot: Some(hot), watch, seen, notices: Vec::new(), stages }
    }

    fn look(&mut self) {
        let (rate, stages) = (self.watch.rate, &mut self.stages);
        self.watch.drain.drain(|passed| stages.record(&passed.way.times(rate)));
        self.notices.extend(self.watch.notices.try_iter());
    }

    /// Waits until it is so.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&Seen, &[Notice]) -> bool) {
        let begin = Instant::now();
        loop {
            self.look();
            if is_so(&self.seen.lock().unwrap(), &self.notices) {
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{what} never came; {} books; {}",
                self.seen.lock().unwrap().books.len(),
                words(&self.notices)
            );
            assert!(!self.hot.as_ref().unwrap().is_finished(), "{what}: the hot thread ended");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until so many books of each instrument were shown since the last was lost.
    pub fn until_fresh(&mut self, books: usize) {
        let count = |seen: &Seen| seen.updates.iter().filter(|one| !one.is_empty()).count();
        self.until("books", |seen, _| count(seen) == 2 && seen.fresh() >= books);
    }

    pub fn end(mut self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let summary = self.hot.take().unwrap().join().unwrap().unwrap();
        self.look();
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        let missed = self.watch.drain.missed();
        let (notices, stages) = (std::mem::take(&mut self.notices), self.stages.clone());
        Outcome { summary, seen, notices, stages, missed }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Notices as people see them.
pub fn words(notices: &[Notice]) -> String {
    notices.iter().fold(String::new(), |mut all, notice| {
        let _ = writeln!(all, "{notice}");
        all
    })
}

impl Outcome {
    /// No book was wrong, as far as the venue's own quotes tell.
    pub fn check_counters(&self) {
        for market in &self.summary.markets {
            let counters = market.counters();
            assert_eq!((counters.bbo_mismatch, counters.crossed), (0, 0), "{counters:?}");
        }
        assert_eq!(self.stages.not_adding_up, 0);
    }

    pub fn has(&self, part: &str) -> bool {
        words(&self.notices).contains(part)
    }
}
