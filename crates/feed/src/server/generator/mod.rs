//! A market made up from a seed: books that live as real ones do, told as Binance USD-M tells them.
//!
//! The market's time goes in ticks of 50 ms. What a tick will hold is planned at its start: how many
//! levels change, how many quotes and trades there are, and in which few microseconds. Most ticks
//! are calm; in a burst every symbol moves at once. The same seed gives the same bytes.

mod books;
mod contract;
mod instrument;
mod shape;
#[cfg(test)]
mod tests;
mod text;

use fastrand::Rng;

use super::book::TrueBook;
use super::source::Event;
use super::stream::{Channel, Stream};
pub use contract::Contract;
use instrument::{Act, Instrument};

/// The length of a tick, ns.
const TICK: u64 = 50_000_000;
/// Steps of a tick are over so many ns before its end; then the depth messages come.
const PUBLISHING: u64 = 1_000_000;
/// Ticks before the market opens: whoever holds the book of the start holds an old one.
const WARM_UP: u64 = 8;
/// One tick in so many is a burst.
const BURSTS: u64 = 48;

/// What a generated market is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The same seed gives the same market.
    pub seed: u64,
    /// The symbols, any case. Those of the largest contracts have their real tick sizes.
    pub symbols: Vec<String>,
    /// The market's first moment, ms since 1970.
    pub epoch_ms: u64,
    /// Whether messages have the fields that were added in 2026.
    pub has_fields_of_2026: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            symbols: vec!["BTCUSDT".into(), "ETHUSDT".into()],
            epoch_ms: 1_767_225_600_000,
            has_fields_of_2026: true,
        }
    }
}

/// Something that happens to one instrument at one moment.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: u64,
    symbol: usize,
    act: Act,
}

/// The market. Time moves with every [`step`](Self::step).
#[derive(Clone, Debug)]
pub struct Generator {
    settings: Settings,
    instruments: Vec<Instrument>,
    /// The current tick's steps in order of time, and the first that is not yet done.
    plan: Vec<Step>,
    next: usize,
    tick: u64,
    /// The exchange's last number; all symbols draw from it.
    last: u64,
    now: u64,
    random: Rng,
}

impl Generator {
    /// The market before its first event.
    pub fn new(settings: Settings) -> Self {
        let mut random = Rng::with_seed(settings.seed);
        let mut last = 9_000_000_000_000 + random.u64(0..1_000_000_000_000);
        let instruments = settings
            .symbols
            .iter()
            .map(|symbol| {
                last += random.u64(1..5_000);
                Instrument::new(Contract::of(symbol), Rng::with_seed(random.u64(..)), last)
            })
            .collect();
        let mut market = Self {
            settings,
            instruments,
            plan: Vec::new(),
            next: 0,
            tick: 0,
            last,
            now: 0,
            random,
        };
        let mut unseen = Vec::new();
        while market.due() < WARM_UP * TICK {
            market.step(&|_| false, &mut unseen);
        }
        market
    }

    /// When the next step is due, ns of the market's time. The first is not at 0.
    pub fn due(&mut self) -> u64 {
        while self.next >= self.plan.len() {
            self.plan_tick();
        }
        self.plan.get(self.next).map_or(u64::MAX, |step| step.at)
    }

    /// Does the next step and adds the events that come of it and are `wanted`. The market goes the
    /// same way whatever is wanted.
    pub fn step(&mut self, wanted: &dyn Fn(Stream) -> bool, out: &mut Vec<Event>) {
        self.now = self.due();
        let Some(step) = self.plan.get(self.next).copied() else { return };
        self.next += 1;
        let changes_book = !matches!(step.act, Act::Publish | Act::Mark);
        if changes_book {
            self.last += self.random.u64(1..=200);
        }
        let moment = instrument::Moment {
            id: self.last,
            time_ms: self.settings.epoch_ms + step.at / 1_000_000,
            tick: self.tick,
            has_fields_of_2026: self.settings.has_fields_of_2026,
        };
        let Some(instrument) = self.instruments.get_mut(step.symbol) else { return };
        let only = |channel: Channel| wanted(Stream { symbol: step.symbol, channel });
        let told = |channel: Channel, text: String| {
            let stream = Stream { symbol: step.symbol, channel };
            out.push(Event { at: step.at, stream, text });
        };
        instrument.act(step.act, &moment, &only, told);
    }

    /// The contracts, in the order of the settings' symbols.
    pub fn contracts(&self) -> impl ExactSizeIterator<Item = &Contract> {
        self.instruments.iter().map(Instrument::contract)
    }

    /// A symbol's book as it is now.
    pub fn book(&self, symbol: usize) -> Option<&TrueBook> {
        self.instruments.get(symbol).map(Instrument::book)
    }

    /// A symbol's book as it was before the first event; too old to be joined to any.
    pub fn oldest_book(&self, symbol: usize) -> Option<&TrueBook> {
        self.instruments.get(symbol).map(Instrument::oldest_book)
    }

    /// OKX's snapshot of a symbol as its `books` stream last showed it, and the moment up to which
    /// events are in it.
    pub fn books(&self, symbol: usize) -> Option<(u64, String)> {
        let instrument = self.instruments.get(symbol)?;
        Some((self.now, instrument.books(self.time_ms())))
    }

    /// The market's time, ms since 1970.
    pub fn time_ms(&self) -> u64 {
        self.settings.epoch_ms + self.now / 1_000_000
    }

    /// Plans a tick: every symbol's acts at their moments, then its messages.
    fn plan_tick(&mut self) {
        self.plan.clear();
        self.next = 0;
        let start = self.tick * TICK;
        let is_burst = self.random.u64(0..BURSTS) == 0;
        let burst_at = self.random.u64(0..TICK - PUBLISHING - TICK / 10);
        for (symbol, instrument) in self.instruments.iter_mut().enumerate() {
            let burst = is_burst.then_some(burst_at);
            instrument.plan(burst, TICK - PUBLISHING, |offset, act| {
                self.plan.push(Step { at: start + offset, symbol, act });
            });
            // Microseconds apart, as an exchange with many symbols sends them.
            let offset = TICK - PUBLISHING + (symbol as u64 * 10_000) % PUBLISHING;
            self.plan.push(Step { at: start + offset, symbol, act: Act::Publish });
            if self.tick % 20 == 0 {
                self.plan.push(Step { at: start + offset, symbol, act: Act::Mark });
            }
        }
        self.plan.sort_by_key(|step| (step.at, step.symbol));
        self.tick += 1;
    }
}
