//! What the messages are for: instruments, their books, whoever wants to know.

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use quietcore_sys::live;

use super::clock::HotClock;
use super::handler::Handler;
use super::handover::{Handover, Role};
use super::keeper::{Fetched, Notice};
use super::link::{Arrival, Take};
use super::tape::Tape;
use crate::market::{Depth, Levels, Quote, Says, Trade};
use crate::stages::{Kind, Laps, Passed, Recorder};
use crate::sync::{Market, MarketConfig, Outcome, State};
use crate::venues::Venue;

/// Room for the levels of a message without asking for more: ten times what the longest had.
const LEVELS: usize = 16 << 10;

/// What could not be used. All of it was left out, and nothing of it is in a book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unused {
    /// Texts that are not what the venue documents.
    pub malformed: u64,
    /// Messages of instruments that were not asked for.
    pub not_asked_for: u64,
    /// Trades that had come before, by another connection.
    pub old_trades: u64,
    /// Changes, quotes and marks that two connections brought while one relieved the other.
    pub doubled: u64,
}

/// The instruments of an engine.
#[derive(Debug)]
pub(super) struct Books<H> {
    venue: &'static dyn Venue,
    pub symbols: Vec<String>,
    numbers: HashMap<Vec<u8>, usize>,
    pub markets: Vec<Market>,
    last_trade: Vec<Option<u64>>,
    /// Which connection each book comes by.
    pub source: Vec<Option<usize>>,
    /// Where a connection's successor does its work, by instrument: its changes, quotes, trades.
    handovers: Vec<[Handover; 3]>,
    /// Whether a snapshot is on its way.
    pub is_asked: Vec<bool>,
    /// How many snapshots were asked for since the book was last live.
    pub tries: Vec<u32>,
    levels: Levels,
    pub handler: H,
    recorder: Recorder,
    pub tape: Option<Tape>,
    /// Where every message's span is published for `quietcore explain --spans`.
    pub live: Option<live::Recorder>,
    notices: Sender<Notice>,
    pub clock: HotClock,
    pub unused: Unused,
    /// Instruments that need a snapshot.
    pub wanting: Vec<usize>,
    /// The connection that is being read.
    current: usize,
    role: Role,
}

impl<H: Handler> Books<H> {
    pub fn new(
        venue: &'static dyn Venue,
        symbols: &[String],
        handler: H,
        recorder: Recorder,
        notices: Sender<Notice>,
        clock: HotClock,
    ) -> Self {
        let rule = venue.rule();
        let snapshot_levels = venue.snapshot_levels();
        let config = MarketConfig { snapshot_levels, ..MarketConfig::default() };
        let count = symbols.len();
        let numbers = symbols.iter().enumerate();
        Self {
            venue,
            symbols: symbols.to_vec(),
            numbers: numbers.map(|(n, name)| (name.to_ascii_uppercase().into_bytes(), n)).collect(),
            markets: (0..count).map(|_| Market::new(rule, config)).collect(),
            last_trade: vec![None; count],
            source: vec![None; count],
            handovers: vec![[Handover::default(); 3]; count],
            is_asked: vec![false; count],
            tries: vec![0; count],
            levels: Levels::with_room(LEVELS),
            handler,
            recorder,
            tape: None,
            live: None,
            notices,
            clock,
            unused: Unused::default(),
            wanting: Vec::with_capacity(count),
            current: 0,
            role: Role::Only,
        }
    }

    /// What follows comes by this connection.
    #[inline]
    pub fn from(&mut self, connection: usize, role: Role) {
        self.current = connection;
        self.role = role;
    }

    /// A connection has got a successor, which has to show that it works.
    pub fn expect(&mut self, connection: usize) {
        self.handovers.iter_mut().flatten().for_each(|stream| stream.begin(connection));
    }

    /// Whether the successor of a connection does all of its work.
    pub fn is_covered(&self, connection: usize) -> bool {
        self.handovers.iter().flatten().all(|stream| stream.is_done(connection))
    }

    /// The instrument that a message names; the only one where it names none.
    #[inline]
    fn number(&self, symbol: &[u8]) -> Option<usize> {
        match symbol {
            [] => (self.markets.len() == 1).then_some(0),
            _ => self.numbers.get(symbol).copied().or_else(|| {
                self.symbols.iter().position(|s| s.as_bytes().eq_ignore_ascii_case(symbol))
            }),
        }
    }

    #[inline]
    fn depth(&mut self, number: usize, depth: &Depth) {
        self.source[number] = Some(self.current);
        let was = self.markets[number].state();
        let outcome = self.markets[number].on_depth(depth, &self.levels);
        self.became(number, was, outcome);
    }

    /// Whether this is to be used, of what two connections may bring.
    #[inline]
    fn is_due(&mut self, number: usize, says: &Says<'_>) -> bool {
        let (route, role, market) = (self.current, self.role, &self.markets[number]);
        let [changes, quotes, trades] = &mut self.handovers[number];
        match says {
            Says::Depth(depth) if depth.is_snapshot => {
                changes.takes(route, role, depth.last, 0, true)
            }
            Says::Depth(depth) => {
                let joins = role == Role::Successor && joins(market, depth);
                changes.takes(route, role, depth.last, market.last(), joins)
            }
            Says::Quote(Quote { update, .. }) => {
                let last = market.last_quote().map_or(0, |last| last.update);
                quotes.takes(route, role, *update, last, last == 0 || *update <= last)
            }
            Says::Trade(Trade { id, .. }) => {
                let last = self.last_trade[number].unwrap_or(0);
                trades.takes(route, role, *id, last, last == 0 || *id <= last.saturating_add(1))
            }
            Says::Mark(_) => role != Role::Successor,
            _ => true,
        }
    }

    /// A snapshot that was asked for.
    #[cold]
    pub fn fetched(&mut self, fetched: &Fetched) {
        let number = fetched.symbol;
        self.is_asked[number] = false;
        if let Some(tape) = &mut self.tape {
            // The answer does not say whose book it is.
            let symbol = self.symbols[number].to_ascii_lowercase();
            let mut line = format!("{{\"stream\":\"{symbol}@snapshot\",\"data\":").into_bytes();
            line.extend_from_slice(&fetched.text);
            line.push(b'}');
            tape.write(None, &line);
        }
        let was = self.markets[number].state();
        let outcome = self.markets[number].on_depth(&fetched.depth, &fetched.levels);
        self.became(number, was, outcome);
        self.tell(number);
    }

    /// Notes what a message did to the state of a book.
    #[inline]
    fn became(&mut self, number: usize, was: State, outcome: Outcome) {
        let market = &self.markets[number];
        let is = market.state();
        if was != is {
            self.changed(number, is, outcome);
        }
        if self.markets[number].needs_snapshot() && !self.is_asked[number] {
            self.is_asked[number] = true;
            self.wanting.push(number);
        }
    }

    #[cold]
    fn changed(&mut self, number: usize, is: State, outcome: Outcome) {
        let symbol = self.symbols[number].clone();
        let notice = match is {
            State::Live => {
                self.tries[number] = 0;
                Notice::Synced { symbol }
            }
            State::Waiting => {
                self.handler.lost(number);
                let why = match outcome {
                    Outcome::Gap => "a change is missing",
                    Outcome::Crossed => "the best bid is not below the best ask",
                    Outcome::ChecksumMismatch => "it is not what the venue's checksum is of",
                    _ => "a new snapshot is needed",
                };
                Notice::Unsynced { symbol, why: why.to_owned() }
            }
        };
        self.notify(notice);
    }

    /// Tells people something.
    pub fn notify(&self, notice: Notice) {
        // Nobody has to listen.
        let _ = self.notices.send(notice);
    }

    /// The strategy hears of a book that is proven.
    #[inline]
    fn tell(&mut self, number: usize) {
        let market = &self.markets[number];
        if market.state() == State::Live {
            self.handler.book(number, market);
        }
    }

    /// One of two connections that bring the same is lost, perhaps the one that was believed: a
    /// change that is missing shows in its number, a quote does not.
    pub fn halved(&mut self, connection: usize) {
        let markets = self.markets.iter_mut().zip(&self.source);
        for (market, _) in markets.filter(|(_, source)| **source == Some(connection)) {
            market.forget_quotes();
        }
    }

    /// The books that come by this connection age from now on.
    pub fn interrupted(&mut self, connection: usize) {
        self.handovers.iter_mut().flatten().for_each(|stream| stream.forget(connection));
        for number in 0..self.markets.len() {
            if self.source[number] != Some(connection) {
                continue;
            }
            let was = self.markets[number].state();
            self.markets[number].interrupt();
            // Nor will the quotes of the meantime ever come.
            self.markets[number].forget_quotes();
            if was == State::Live {
                self.handler.lost(number);
                let why = "its connection is lost".to_owned();
                self.notify(Notice::Unsynced { symbol: self.symbols[number].clone(), why });
            }
        }
    }

    /// Captures a message, where that is wanted.
    #[inline]
    fn keep(&mut self, text: &[u8], arrival: &Arrival) {
        if let Some(tape) = &mut self.tape {
            tape.write(arrival.stamp_ns, text);
        }
    }

    /// What an idle moment is for.
    pub fn tidy(&mut self) {
        for market in &mut self.markets {
            if market.is_untidy() {
                market.tidy();
            }
        }
    }
}

/// Whether nothing is missing between a live book and a change.
fn joins(market: &Market, depth: &Depth) -> bool {
    let last = market.last();
    let previous = depth.previous.unwrap_or(depth.first.saturating_sub(1));
    market.state() == State::Live && previous <= last
}

impl<H: Handler> Take for Books<H> {
    #[inline(always)]
    fn clock(&self) -> &HotClock {
        &self.clock
    }

    #[inline]
    fn take(&mut self, text: &[u8], laps: &mut Laps, arrival: &Arrival) {
        let read = self.venue.scan(text, &mut self.levels);
        laps.json(self.clock.now());
        let (symbol, says) = match read {
            Ok(message) => (self.number(message.symbol), message.says),
            Err(_) => {
                self.unused.malformed += 1;
                // Whoever looks into it will want to see it.
                self.keep(text, arrival);
                return;
            }
        };
        if symbol.is_some_and(|number| !self.is_due(number, &says)) {
            self.unused.old_trades += u64::from(matches!(says, Says::Trade(_)));
            self.unused.doubled += u64::from(!matches!(says, Says::Trade(_)));
            return;
        }
        let kind = match (says, symbol) {
            (Says::Done(_) | Says::Other, _) => Kind::Other,
            (Says::Refused(words), _) => {
                let words = String::from_utf8_lossy(words).into_owned();
                self.notify(Notice::Refused { words });
                Kind::Other
            }
            (_, None) => {
                self.unused.not_asked_for += 1;
                return;
            }
            (Says::Depth(depth), Some(number)) => {
                self.depth(number, &depth);
                Kind::Depth
            }
            (Says::Quote(quote), Some(number)) => {
                self.markets[number].on_quote(&quote);
                Kind::Quote
            }
            (Says::Trade(_), _) => Kind::Trade,
            (Says::Mark(_), _) => Kind::Other,
        };
        let now = self.clock.now();
        let way = laps.book(now);
        let number = symbol.unwrap_or_default();
        self.recorder.record(&Passed { kind, way });
        if let Some(live) = &mut self.live {
            let ran = now.saturating_sub(way.since_read + way.read);
            let [ran, end] = [ran, now].map(|ticks| self.clock.monotonic_ns(ticks));
            live.record(kind as u32, ran.saturating_sub(way.wake_ns.unwrap_or(0)), end);
        }
        match says {
            Says::Depth(_) => self.tell(number),
            Says::Quote(quote) => self.handler.quote(number, &quote),
            Says::Trade(trade) if self.last_trade[number].is_none_or(|last| last < trade.id) => {
                self.last_trade[number] = Some(trade.id);
                self.handler.trade(number, &trade);
            }
            Says::Trade(_) => self.unused.old_trades += 1,
            Says::Mark(mark) => self.handler.mark(number, &mark),
            _ => {}
        }
        self.keep(text, arrival);
    }
}
