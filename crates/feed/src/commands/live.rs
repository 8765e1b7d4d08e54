//! The table on a terminal while the engine runs.

use std::fmt::{Display, Write as _};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quietcore_console::Output;
use quietcore_measure::Nanos;

use super::run::Timed;
use crate::engine::Handler;
use crate::fixed::Fixed;
use crate::market::Side;
use crate::stages::Stage;
use crate::sync::Market;

const EVERY: Duration = Duration::from_secs(1);

/// What the hot thread shows of each book: bid, ask and how many changes.
#[derive(Clone, Debug)]
pub(super) struct Board(Arc<[[AtomicU64; 3]]>);

impl Board {
    pub fn new(symbols: usize) -> Self {
        Self((0..symbols).map(|_| Default::default()).collect())
    }

    /// What is to be called for each change of a book.
    pub fn handler(&self) -> impl Handler + Send + use<> {
        Poster(self.clone())
    }

    /// Best bid, best ask; nothing where the book is not proven. And how many changes so far.
    fn read(&self, symbol: usize) -> (Option<[Fixed; 2]>, u64) {
        let [bid, ask, changes] = &self.0[symbol];
        let price = |of: &AtomicU64| Fixed(of.load(Ordering::Relaxed) as i64);
        let best = [price(bid), price(ask)];
        let is_shown = best.iter().any(|price| *price != Fixed::ZERO);
        (is_shown.then_some(best), changes.load(Ordering::Relaxed))
    }
}

struct Poster(Board);

impl Handler for Poster {
    fn book(&mut self, symbol: usize, market: &Market) {
        let Some(book) = market.book() else { return };
        let [bid, ask, changes] = &self.0.0[symbol];
        let best = |side| book.best(side).map_or(0, |level| level.price.0 as u64);
        bid.store(best(Side::Bid), Ordering::Relaxed);
        ask.store(best(Side::Ask), Ordering::Relaxed);
        changes.store(changes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn lost(&mut self, symbol: usize) {
        let [bid, ask, _] = &self.0.0[symbol];
        bid.store(0, Ordering::Relaxed);
        ask.store(0, Ordering::Relaxed);
    }
}

/// The terminal, if there is one.
#[derive(Debug)]
pub(super) struct Screen<'a> {
    output: &'a Output,
    symbols: &'a [String],
    is_terminal: bool,
    shown: Option<Instant>,
    lines: usize,
    messages: u64,
}

impl<'a> Screen<'a> {
    pub fn new(output: &'a Output, symbols: &'a [String]) -> Self {
        let is_terminal = std::io::stderr().is_terminal() && !output.quiet;
        Self { output, symbols, is_terminal, shown: None, lines: 0, messages: 0 }
    }

    /// Says something, above the table.
    pub fn say(&mut self, what: &impl Display) {
        self.clear();
        self.output.say(what);
    }

    /// Takes the table off the screen.
    pub fn clear(&mut self) {
        if self.lines > 0 {
            // A terminal that is gone shows nothing anyway.
            let _ = write!(std::io::stderr(), "\x1b[{}A\x1b[J", self.lines);
            self.lines = 0;
        }
    }

    /// Shows the table anew, once a second.
    pub fn show(&mut self, board: &Board, timed: &Timed) {
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= EVERY);
        if !self.is_terminal || !is_due {
            return;
        }
        let since = self.shown.map_or(EVERY, |shown| shown.elapsed());
        self.shown = Some(Instant::now());
        let messages = timed.all.messages();
        let rate = (messages - self.messages) as f64 / since.as_secs_f64();
        self.messages = messages;
        let text = table(self.symbols, board, timed, rate);
        self.clear();
        self.lines = text.lines().count();
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

fn table(symbols: &[String], board: &Board, timed: &Timed, rate: f64) -> String {
    let mut text = String::new();
    for (number, symbol) in symbols.iter().enumerate() {
        let (best, changes) = board.read(number);
        let best = best.map_or_else(
            || "not proven".to_owned(),
            |[bid, ask]| format!("{:>16} {:>16}", bid.to_string(), ask.to_string()),
        );
        // A String takes everything.
        let _ = writeln!(text, "{symbol:<16} {best:<33} {changes:>10} changes");
    }
    let total = timed.all.total();
    let at = |q| total.value_at(q).map_or_else(|| "-".to_owned(), |ns| Nanos(ns).to_string());
    let _ = writeln!(text, "{rate:.0} messages/s · P50 {} · P99 {}", at(0.5), at(0.99));
    let stages = Stage::ALL.iter().filter_map(|&stage| {
        let p50 = timed.all.stage(stage).value_at(0.5)?;
        Some(format!("{} {}", stage.name(), Nanos(p50)))
    });
    let _ = writeln!(text, "P50: {}", stages.collect::<Vec<_>>().join(" · "));
    text
}
