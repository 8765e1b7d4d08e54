//! Keeps one instrument's book proven continuous, or says that it is not.
//!
//! A venue sends changes of a book, numbered; one lost, doubled or late change and the book is wrong
//! from there on without showing it. [`Market`] shows a book only as long as every change since the
//! snapshot is in it, and says when a new snapshot is needed. It is told what came in and does no
//! I/O; times play no part, only the venue's numbers.

mod checksum;
mod held;
mod quotes;
mod shown;

use crate::book::{Book, BookConfig};
use crate::fixed::Fixed;
use crate::market::{Depth, Levels, Quote, Side};
use crate::venues::Rule;
use held::Held;
use shown::{Follows, Shown, Wrong, follows_directly};

/// So many changes in a row of which none is new: the venue counts anew, or we are stuck.
const STUCK: u32 = 256;

/// What a market keeps room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarketConfig {
    /// What is known of the book.
    pub book: BookConfig,
    /// Changes that are kept until a snapshot comes.
    pub held_changes: usize,
    /// Levels of these, in all.
    pub held_levels: usize,
    /// Levels that a side of a snapshot has at most; 0 where a snapshot is always whole.
    pub snapshot_levels: usize,
}

impl Default for MarketConfig {
    /// Half a minute of a busy instrument, and Binance's snapshots of 1,000 levels.
    fn default() -> Self {
        Self {
            book: BookConfig::default(),
            held_changes: 512,
            held_levels: 32 * 1024,
            snapshot_levels: 1000,
        }
    }
}

/// Whether there is a book to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// For a snapshot, or for the change that joins it to the stream.
    Waiting,
    /// The book holds every change up to [`Market::last`].
    Live,
}

/// What became of a depth message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The book is live and holds it.
    Applied,
    /// Kept until a snapshot comes.
    Buffered,
    /// A snapshot that is newer than every change so far: the next ones join it to the stream.
    Awaiting,
    /// Nothing in it is new, or nothing here needs it. Nothing changed.
    Stale,
    /// Of no use before the stream's snapshot.
    Dropped,
    /// The snapshot is older than the changes that were kept. A newer one is needed.
    SnapshotTooOld,
    /// A change is missing before this one. A snapshot is needed.
    Gap,
    /// The best bid is not below the best ask. A snapshot is needed.
    Crossed,
    /// The book is not what the venue's checksum is of. A snapshot is needed.
    ChecksumMismatch,
}

impl From<Wrong> for Outcome {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Crossed => Self::Crossed,
            Wrong::Checksum => Self::ChecksumMismatch,
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Changes of the book that came in. Snapshots are not among them.
    pub depth_events: u64,
    /// Whole books that came in.
    pub snapshots: u64,
    /// Changes that a live book took up.
    pub bridged: u64,
    /// Times that a change was missing.
    pub gaps: u64,
    /// Times that the best bid was not below the best ask.
    pub crossed: u64,
    /// Tops of the book that were compared with the quote of the same position.
    pub bbo_checked: u64,
    /// Those that differed from it.
    pub bbo_mismatch: u64,
    /// Checksums that were compared.
    pub checksum_checked: u64,
    /// Those that differed.
    pub checksum_mismatch: u64,
    /// Changes that the live book held already: doubled, or overtaken.
    pub duplicates: u64,
    /// Changes that came while there was no book and were not used for one: older than the
    /// snapshot, or pushed out by newer ones.
    pub dropped_while_waiting: u64,
    /// Snapshots that were older than what they were to be joined to.
    pub snapshots_too_old: u64,
    /// Times that the book was live again after it had been lost.
    pub resyncs: u64,
}

/// One instrument's book and the rules that keep it right.
#[derive(Debug)]
pub struct Market {
    rule: Rule,
    state: State,
    /// The book is loaded with the snapshot of this update and waits for the change to join it.
    pending: Option<u64>,
    was_lost: bool,
    stale_in_a_row: u32,
    held: Held,
    shown: Shown,
}

impl Market {
    /// Waiting, with everything preallocated.
    pub fn new(rule: Rule, config: MarketConfig) -> Self {
        let (changes, levels) = match rule {
            Rule::Bridge => (config.held_changes, config.held_levels),
            // What comes before the snapshot is of no use.
            Rule::InStream => (0, 0),
        };
        Self {
            rule,
            state: State::Waiting,
            pending: None,
            was_lost: false,
            stale_in_a_row: 0,
            held: Held::new(changes, levels),
            shown: Shown::new(rule, &config),
        }
    }

    /// Whether there is a book to show.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether nothing goes on without a new snapshot: one to be asked for, or, where the stream
    /// begins with it, a new subscription.
    pub fn needs_snapshot(&self) -> bool {
        self.state == State::Waiting && (self.pending.is_none() || self.is_stuck())
    }

    /// Nothing new has come for long: the venue counts anew, or the snapshot was not of this stream.
    fn is_stuck(&self) -> bool {
        self.stale_in_a_row >= STUCK
    }

    /// The book, where it is live.
    #[inline]
    pub fn book(&self) -> Option<&Book> {
        (self.state == State::Live).then_some(&self.shown.book)
    }

    /// The last update that the book holds.
    pub fn last(&self) -> u64 {
        self.shown.last
    }

    /// The worst price up to which a side is whole: a snapshot has not all levels, and those
    /// beyond it are known only once they change. `None`: it is whole.
    pub fn trusted(&self, side: Side) -> Option<Fixed> {
        self.shown.trusted[usize::from(side == Side::Ask)]
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.shown.counters
    }

    /// Of every book and change taken up, in their order: two runs that saw the same have the same.
    pub fn event_hash(&self) -> u64 {
        self.shown.hash
    }

    /// The best prices that the venue said last.
    pub fn last_quote(&self) -> Option<&Quote> {
        self.shown.quotes.last()
    }

    /// Whether a snapshot of this update can be joined to the changes that wait.
    pub fn fits(&self, snapshot: u64) -> bool {
        let first = self.held.depths().find(|depth| depth.last >= snapshot);
        self.needs_snapshot() && first.is_some_and(|depth| joins(depth, snapshot))
    }

    /// A message with a book, or a change of one. The levels are the message's.
    #[inline]
    pub fn on_depth(&mut self, depth: &Depth, levels: &Levels) -> Outcome {
        if depth.is_snapshot {
            return self.on_snapshot(depth, levels);
        }
        self.shown.counters.depth_events += 1;
        match self.state {
            State::Live => self.on_change(depth, levels),
            State::Waiting => self.while_waiting(depth, levels),
        }
    }

    /// The best prices as the venue says: compared with the book's at the same position.
    #[inline]
    pub fn on_quote(&mut self, quote: &Quote) {
        self.shown.quotes.on_quote(quote, &mut self.shown.counters);
    }

    /// Quotes were missed: those so far say nothing of the books to come.
    pub fn forget_quotes(&mut self) {
        self.shown.quotes.forget_quotes();
    }

    /// The stream was cut off: the book ages from now on and is not shown any more.
    pub fn interrupt(&mut self) {
        self.lose();
        self.held.clear();
    }

    /// No more quotes will come: compares what was put off until the next one.
    pub fn finish(&mut self) {
        self.shown.quotes.finish(&mut self.shown.counters);
    }

    /// Whether [`Market::tidy`] is worth an idle moment.
    #[inline]
    pub fn is_untidy(&self) -> bool {
        self.shown.book.is_off_centre()
    }

    /// Makes the book fast again after the price has moved far. Not for the hot path.
    pub fn tidy(&mut self) {
        self.shown.book.recentre();
    }

    #[inline]
    fn on_change(&mut self, depth: &Depth, levels: &Levels) -> Outcome {
        match self.shown.follows(depth) {
            Follows::Next => {
                self.stale_in_a_row = 0;
                let applied = self.shown.apply(depth, &levels.bids, &levels.asks);
                applied
                    .map_or_else(|wrong| self.lost_by(wrong, depth, levels), |()| Outcome::Applied)
            }
            Follows::Held if !self.is_stuck() => {
                self.stale_in_a_row += 1;
                self.shown.counters.duplicates += 1;
                Outcome::Stale
            }
            Follows::Held | Follows::Gap => {
                self.shown.counters.gaps += 1;
                self.lose();
                self.hold(depth, levels);
                Outcome::Gap
            }
        }
    }

    #[cold]
    fn lost_by(&mut self, wrong: Wrong, depth: &Depth, levels: &Levels) -> Outcome {
        self.lose();
        self.hold(depth, levels);
        wrong.into()
    }

    fn lose(&mut self) {
        self.was_lost |= self.state == State::Live;
        self.state = State::Waiting;
        self.pending = None;
        self.stale_in_a_row = 0;
        self.shown.quotes.forget_tops();
    }

    fn live(&mut self) {
        self.state = State::Live;
        self.pending = None;
        self.stale_in_a_row = 0;
        self.shown.counters.resyncs += u64::from(std::mem::take(&mut self.was_lost));
        self.held.clear();
    }

    fn hold(&mut self, depth: &Depth, levels: &Levels) {
        match self.rule {
            Rule::Bridge => {
                self.shown.counters.dropped_while_waiting += self.held.push(depth, levels);
            }
            Rule::InStream => self.shown.counters.dropped_while_waiting += 1,
        }
    }

    fn while_waiting(&mut self, depth: &Depth, levels: &Levels) -> Outcome {
        let Some(snapshot) = self.pending else {
            self.hold(depth, levels);
            return match self.rule {
                Rule::Bridge => Outcome::Buffered,
                Rule::InStream => Outcome::Dropped,
            };
        };
        if depth.last < snapshot {
            self.stale_in_a_row = self.stale_in_a_row.saturating_add(1);
            self.shown.counters.dropped_while_waiting += 1;
            return Outcome::Stale;
        }
        if !joins(depth, snapshot) {
            self.pending = None;
            self.shown.counters.snapshots_too_old += 1;
            self.hold(depth, levels);
            return Outcome::SnapshotTooOld;
        }
        if let Err(wrong) = self.shown.apply(depth, &levels.bids, &levels.asks) {
            return self.lost_by(wrong, depth, levels);
        }
        self.live();
        Outcome::Applied
    }

    fn on_snapshot(&mut self, depth: &Depth, levels: &Levels) -> Outcome {
        self.shown.counters.snapshots += 1;
        match self.rule {
            Rule::InStream => self.begin(depth, levels),
            Rule::Bridge => self.bridge(depth, levels),
        }
    }

    /// The stream begins, or begins anew. A second connection's may begin behind where the first
    /// one has brought the book.
    fn begin(&mut self, depth: &Depth, levels: &Levels) -> Outcome {
        if self.state == State::Live && self.shown.is_remembered(depth.last) {
            return Outcome::Stale;
        }
        if let Err(wrong) = self.shown.load(depth, levels) {
            self.lose();
            return wrong.into();
        }
        self.stale_in_a_row = 0;
        self.live();
        Outcome::Applied
    }

    /// Joins a snapshot to the changes that wait for it ("How to manage a local order book
    /// correctly", Binance USD-M futures documentation).
    fn bridge(&mut self, depth: &Depth, levels: &Levels) -> Outcome {
        let snapshot = depth.last;
        let is_older = self.pending.is_some_and(|pending| snapshot <= pending);
        if self.state == State::Live || is_older && !self.is_stuck() {
            return Outcome::Stale;
        }
        let first = self.held.depths().find(|change| change.last >= snapshot);
        if first.is_some_and(|change| !joins(change, snapshot)) {
            self.shown.counters.snapshots_too_old += 1;
            return Outcome::SnapshotTooOld;
        }
        if let Err(wrong) = self.shown.load(depth, levels) {
            self.lose();
            return wrong.into();
        }
        self.pending = Some(snapshot);
        self.stale_in_a_row = 0;
        self.replay(snapshot)
    }

    /// Applies the changes that waited, after the snapshot of this update.
    fn replay(&mut self, snapshot: u64) -> Outcome {
        let mut has_joined = false;
        while let Some((depth, bids, asks)) = self.held.front() {
            let follows = match has_joined {
                true => self.shown.follows(&depth),
                false if depth.last < snapshot => Follows::Held,
                false => Follows::Next,
            };
            match follows {
                Follows::Next => {
                    if let Err(wrong) = self.shown.apply(&depth, bids, asks) {
                        self.lose();
                        return wrong.into();
                    }
                    has_joined = true;
                }
                Follows::Held if has_joined => self.shown.counters.duplicates += 1,
                Follows::Held => self.shown.counters.dropped_while_waiting += 1,
                Follows::Gap => {
                    self.shown.counters.gaps += 1;
                    self.lose();
                    return Outcome::Gap;
                }
            }
            self.held.pop();
        }
        if !has_joined {
            return Outcome::Awaiting;
        }
        self.live();
        Outcome::Applied
    }
}

/// Whether a change may be the first after a snapshot: the snapshot lies within it, or it is the
/// very next one, the one with the snapshot at its end having passed before.
fn joins(depth: &Depth, snapshot: u64) -> bool {
    (depth.first..=depth.last).contains(&snapshot) || follows_directly(depth, snapshot)
}

#[cfg(test)]
mod tests;
