//! Plays a recording into books and says how right they were.

use std::path::Path;

use quietcore_measure::{Cell, Table};

use crate::market::{Depth, Levels, Message, Quote, Says};
use crate::sync::{Market, MarketConfig};
use crate::venues::Rule;

use super::{ReadError, Reader};

/// Snapshots without a symbol that wait for the changes they belong to.
const MOST_NAMELESS: usize = 16;
/// Errors that are kept; all are counted.
const MOST_ERRORS: usize = 20;

/// A market per symbol, and what could not be given to one.
#[derive(Debug)]
pub struct Replay {
    markets: Vec<(String, Market)>,
    /// Snapshots that name no symbol and fitted none yet.
    nameless: Vec<(Depth, Levels)>,
    unassigned: u64,
}

impl Replay {
    /// Of the instruments of which there are changes of books.
    pub fn new<'a>(
        rule: Rule,
        config: MarketConfig,
        symbols: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut markets: Vec<_> = symbols
            .into_iter()
            .map(|symbol| (symbol.to_ascii_uppercase(), Market::new(rule, config)))
            .collect();
        markets.sort_by(|(a, _), (b, _)| a.cmp(b));
        markets.dedup_by(|(a, _), (b, _)| a == b);
        Self { markets, nameless: Vec::new(), unassigned: 0 }
    }

    /// The instruments by name.
    pub fn markets(&self) -> impl Iterator<Item = (&str, &Market)> {
        self.markets.iter().map(|(symbol, market)| (symbol.as_str(), market))
    }

    /// Snapshots that named no symbol and fitted none.
    pub fn unassigned(&self) -> u64 {
        self.unassigned + self.nameless.len() as u64
    }

    fn market(&mut self, symbol: &[u8]) -> Option<&mut Market> {
        let named =
            |(name, _): &&mut (String, Market)| name.as_bytes().eq_ignore_ascii_case(symbol);
        self.markets.iter_mut().find(named).map(|(_, market)| market)
    }

    /// Plays the next message. The levels are the message's.
    pub fn play(&mut self, message: &Message<'_>, levels: &Levels) {
        match message.says {
            Says::Depth(depth) if message.symbol.is_empty() => self.play_nameless(depth, levels),
            Says::Depth(depth) => {
                if let Some(market) = self.market(message.symbol) {
                    play_depth(market, &depth, levels);
                    self.assign();
                }
            }
            Says::Quote(quote) => {
                if let Some(market) = self.market(message.symbol) {
                    market.on_quote(&quote);
                }
            }
            _ => {}
        }
    }

    /// A snapshot that was asked for does not say of what. It is the only instrument's, or that
    /// one's whose waiting changes it joins.
    fn play_nameless(&mut self, depth: Depth, levels: &Levels) {
        if let [(_, market)] = &mut self.markets[..] {
            return play_depth(market, &depth, levels);
        }
        if !depth.is_snapshot || self.nameless.len() == MOST_NAMELESS {
            self.unassigned += 1;
            return;
        }
        self.nameless.push((depth, levels.clone()));
        self.assign();
    }

    fn assign(&mut self) {
        let markets = &mut self.markets;
        self.nameless.retain(|(depth, levels)| {
            let mut fitting = markets
                .iter_mut()
                .map(|(_, market)| market)
                .filter(|market| market.fits(depth.last) && is_price_of(market, levels));
            // Updates are counted across instruments: it may seem to fit several.
            let (Some(market), None) = (fitting.next(), fitting.next()) else { return true };
            play_depth(market, depth, levels);
            false
        });
    }

    /// The end: compares what waits for a later quote.
    pub fn finish(&mut self) {
        self.markets.iter_mut().for_each(|(_, market)| market.finish());
    }
}

fn play_depth(market: &mut Market, depth: &Depth, levels: &Levels) {
    // What became of it is in the market's counters.
    let _ = market.on_depth(depth, levels);
    if market.is_untidy() {
        market.tidy();
    }
}

/// Whether a snapshot's best bid is within a tenth of the market's last one, if that is known.
fn is_price_of(market: &Market, levels: &Levels) -> bool {
    let best = levels.bids.iter().map(|level| level.price.0).max();
    let quoted = market.last_quote().map(|Quote { bid, .. }| bid.price.0);
    match (best, quoted) {
        (Some(best), Some(quoted)) => best.abs_diff(quoted) <= quoted.unsigned_abs() / 10,
        _ => true,
    }
}

/// What a recording's books came to.
#[derive(Debug)]
pub struct BookCheck {
    /// The instruments and their books at the end.
    pub replay: Replay,
    /// Messages read.
    pub messages: u64,
    /// Messages that the venue's scanner did not understand.
    pub not_understood: u64,
    /// Lines that are none of a recording.
    pub bad_lines: u64,
    /// The first errors of either kind, each with its line.
    pub errors: Vec<String>,
}

impl BookCheck {
    /// Plays a recording of one venue, read with its scanner. Reads it twice: first to see of which
    /// instruments there are books. Lines and messages that make no sense are counted and left out,
    /// and where a file is damaged it ends.
    ///
    /// # Errors
    /// [`ReadError::Open`], also of an empty or unreadable first block.
    pub fn of<E: std::fmt::Display>(
        path: &Path,
        rule: Rule,
        config: MarketConfig,
        mut scan: impl for<'a> FnMut(&'a [u8], &mut Levels) -> Result<Message<'a>, E>,
    ) -> Result<Self, ReadError> {
        let mut levels = Levels::default();
        let mut symbols = std::collections::BTreeSet::new();
        each_line(Reader::open(path)?, |_, json| {
            let Ok(Message { symbol, says: Says::Depth(_) }) = scan(json, &mut levels) else {
                return;
            };
            let symbol = String::from_utf8_lossy(symbol).to_ascii_uppercase();
            if !symbol.is_empty() && !symbols.contains(&symbol) {
                symbols.insert(symbol);
            }
        });
        let replay = Replay::new(rule, config, symbols.iter().map(String::as_str));
        let mut check =
            Self { replay, messages: 0, not_understood: 0, bad_lines: 0, errors: vec![] };
        let (bad_lines, errors) = each_line(Reader::open(path)?, |number, json| {
            check.messages += 1;
            match scan(json, &mut levels) {
                Ok(message) => check.replay.play(&message, &levels),
                Err(error) => {
                    check.not_understood += 1;
                    if check.errors.len() < MOST_ERRORS {
                        check.errors.push(format!("line {number}: {error}"));
                    }
                }
            }
        });
        check.replay.finish();
        check.bad_lines = bad_lines;
        check.errors.extend(errors);
        Ok(check)
    }

    /// Table `book_check`: a row for each instrument.
    pub fn table(&self) -> Table {
        let columns = [
            "symbol",
            "depth_events",
            "bridged",
            "gaps",
            "crossed",
            "bbo_checked",
            "bbo_mismatch",
            "checksum_checked",
            "checksum_mismatch",
        ];
        let mut table = Table::new("book_check", "How right the books were", &columns);
        for (symbol, market) in self.replay.markets() {
            let counters = market.counters();
            let mut row: Vec<Cell> = vec![symbol.into()];
            row.extend(
                [
                    counters.depth_events,
                    counters.bridged,
                    counters.gaps,
                    counters.crossed,
                    counters.bbo_checked,
                    counters.bbo_mismatch,
                    counters.checksum_checked,
                    counters.checksum_mismatch,
                ]
                .map(Cell::from),
            );
            table.rows.push(row);
        }
        table
    }
}

/// Hands out every line; how many were bad, and what was wrong with the first of them.
fn each_line(mut reader: Reader, mut line: impl FnMut(u64, &[u8])) -> (u64, Vec<String>) {
    let mut errors = Vec::new();
    loop {
        match reader.next_line() {
            Ok(Some(found)) => line(found.number, found.json),
            Ok(None) => return (reader.bad(), errors),
            Err(error) if errors.len() < MOST_ERRORS => errors.push(error.to_string()),
            Err(_) => {}
        }
    }
}
