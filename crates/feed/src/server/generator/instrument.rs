//! One instrument of a generated market: its book, what happens to it, what is told of it.

use fastrand::Rng;

use super::super::book::{TrueBook, write_levels};
use super::super::decimal::ONE;
use super::super::stream::Channel;
use super::books::View;
use super::contract::Contract;
use super::shape::{self, RANKS};
use super::text::{Text, TradeLine};
use crate::market::Side;

/// A side never has fewer levels.
const FEWEST: usize = 40;
/// Prices this far from the best (in millionths) are round ones, so that the same come again.
const ROUND_FROM: u64 = 10_000;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The quantity at the best price changes, or the spread is narrowed.
    Quote,
    /// A taker takes from the best.
    Trade,
    /// A level somewhere changes, appears or goes.
    Level,
    /// The price runs through many levels at once.
    Jump,
    /// What changed since the last message is told.
    Publish,
    /// The mark price is told.
    Mark,
}

/// When an act happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) id: u64,
    pub(super) time_ms: u64,
    pub(super) tick: u64,
    pub(super) has_fields_of_2026: bool,
}

/// The prices that changed since a depth stream's last message.
#[derive(Clone, Debug)]
struct Changes {
    channel: Channel,
    /// Ticks between two messages.
    every: u64,
    first: Option<u64>,
    previous: u64,
    bids: Vec<i64>,
    asks: Vec<i64>,
}

#[derive(Clone, Debug)]
pub(super) struct Instrument {
    contract: Contract,
    book: TrueBook,
    oldest: TrueBook,
    changes: [Changes; 4],
    /// What OKX's clients were shown.
    view: View,
    quoted: [Option<(i64, i64)>; 2],
    trades: u64,
    random: Rng,
}

fn other(side: Side) -> Side {
    match side {
        Side::Bid => Side::Ask,
        Side::Ask => Side::Bid,
    }
}

impl Instrument {
    /// An instrument with a full book, whose last update is `last`.
    pub(super) fn new(contract: Contract, random: Rng, last: u64) -> Self {
        let changes = [
            (Channel::DepthAtOnce, 1),
            (Channel::Depth100, 2),
            (Channel::Depth250, 5),
            (Channel::Depth500, 10),
        ]
        .map(|(channel, every)| Changes {
            channel,
            every,
            first: None,
            previous: last,
            bids: Vec::new(),
            asks: Vec::new(),
        });
        let book = TrueBook { last, ..TrueBook::default() };
        let trades = 1_000_000;
        let mut instrument = Self {
            contract,
            oldest: book.clone(),
            book,
            changes,
            view: View::default(),
            quoted: [None; 2],
            trades,
            random,
        };
        instrument.fill();
        instrument.oldest = instrument.book.clone();
        instrument.view = View::of(&instrument.book);
        instrument
    }

    pub(super) fn contract(&self) -> &Contract {
        &self.contract
    }

    pub(super) fn book(&self) -> &TrueBook {
        &self.book
    }

    pub(super) fn books(&self, time_ms: u64) -> String {
        self.view.snapshot(&self.contract, time_ms)
    }

    pub(super) fn oldest_book(&self) -> &TrueBook {
        &self.oldest
    }

    /// The book at the start: dense near the price, sparse and round far from it.
    fn fill(&mut self) {
        let (tick, start) = (self.contract.tick, self.contract.start);
        for side in [Side::Bid, Side::Ask] {
            let away = if side == Side::Bid { -1 } else { 1 };
            let first = if side == Side::Bid { start } else { start + tick };
            self.place(side, first);
            for distance in 1..6_000_i64 {
                let density = if distance < 1_000 { 70 } else { 25 };
                let price = first + away * distance * tick;
                if price > start / 20 && self.random.u64(0..100) < density {
                    self.place(side, price);
                }
            }
            for _ in 0..400 {
                if let Some(price) = self.somewhere(side) {
                    self.place(side, price);
                }
            }
        }
    }

    fn place(&mut self, side: Side, price: i64) {
        let lots = shape::draw(shape::QUANTITY, &mut self.random).max(1);
        self.book.set(side, price, lots as i64 * self.contract.lot);
    }

    /// A price of a side where something may happen, no better than the best.
    fn somewhere(&mut self, side: Side) -> Option<i64> {
        let (best, _) = self.book.best(side)?;
        let tick = self.contract.tick;
        let millionths = shape::draw(shape::DISTANCE, &mut self.random);
        // Coarse ticks would leave a handful of prices: count as if there were at least 200,000.
        let ticks = (best / tick).max(200_000) as u64 * millionths / 1_000_000;
        let price = match side {
            Side::Bid => best.checked_sub(tick * ticks as i64)?,
            Side::Ask => best.checked_add(tick * ticks as i64)?,
        };
        let round = if millionths >= ROUND_FROM { tick * 500 } else { tick };
        let price = match side {
            Side::Bid => price / round * round,
            Side::Ask => (price + round - 1) / round * round,
        };
        (price >= tick).then_some(price)
    }

    /// Plans a tick: how often what happens, and when. `burst`: everything at that moment, and much.
    pub(super) fn plan(&mut self, burst: Option<u64>, end: u64, mut add: impl FnMut(u64, Act)) {
        let random = &mut self.random;
        let rank = match burst {
            Some(_) => random.u64(RANKS / 20 * 19..=RANKS),
            None => random.u64(0..=RANKS / 100 * 98),
        };
        // Far more than is planned for the median; most of it in a few clusters.
        let centres = [0; 3].map(|_| burst.unwrap_or_else(|| random.u64(0..end - end / 10)));
        let acts = [
            (Act::Level, shape::at(shape::LEVELS, rank)),
            (Act::Quote, shape::at(shape::QUOTES, rank)),
            (Act::Trade, shape::at(shape::TRADES, rank)),
            (Act::Jump, u64::from(random.u64(0..100) == 0 || burst.is_some())),
        ];
        for (act, count) in acts {
            for index in 0..count {
                let centre = centres[random.usize(0..centres.len())];
                let offset = centre + index * 2_000 + random.u64(0..6_000);
                add(offset.min(end - 1), act);
            }
        }
    }

    pub(super) fn act(
        &mut self,
        act: Act,
        moment: &Moment,
        wanted: &dyn Fn(Channel) -> bool,
        mut tell: impl FnMut(Channel, String),
    ) {
        match act {
            Act::Publish => return self.publish(moment, wanted, tell),
            Act::Mark => return self.mark(moment, wanted, tell),
            Act::Level => self.change_level(),
            Act::Quote => self.change_best(),
            Act::Jump => self.jump(),
            Act::Trade => self.trade(moment, wanted, &mut tell),
        }
        self.book.last = moment.id;
        for changes in &mut self.changes {
            changes.first.get_or_insert(moment.id);
        }
        let best = [self.book.best(Side::Bid), self.book.best(Side::Ask)];
        if best != self.quoted {
            self.quoted = best;
            if let ([Some(bid), Some(ask)], true) = (best, wanted(Channel::BookTicker)) {
                let text = Text::new(&self.contract, moment.time_ms, moment.has_fields_of_2026);
                tell(Channel::BookTicker, text.quote(moment.id, bid, ask));
            }
        }
    }

    /// Sets a level and remembers that it changed.
    fn set(&mut self, side: Side, price: i64, quantity: i64) {
        self.book.set(side, price, quantity);
        for changes in &mut self.changes {
            match side {
                Side::Bid => changes.bids.push(price),
                Side::Ask => changes.asks.push(price),
            }
        }
    }

    fn lots(&mut self, quantiles: &[(u64, u64)]) -> i64 {
        shape::draw(quantiles, &mut self.random).max(1) as i64 * self.contract.lot
    }

    /// Bid as often as ask while the price is where it started; more often what leads back to it.
    fn upward(&mut self) -> bool {
        let start = self.contract.start;
        let price = self.book.best(Side::Bid).map_or(start, |best| best.0);
        let percent = match price {
            _ if price > start + start / 100 => 25,
            _ if price < start - start / 100 => 75,
            _ => 50,
        };
        self.random.u64(0..100) < percent
    }

    fn change_level(&mut self) {
        let side = if self.random.bool() { Side::Bid } else { Side::Ask };
        let Some(price) = self.somewhere(side) else { return };
        let is_there = self.book.side(side).contains_key(&price);
        let may_go = self.book.side(side).len() > FEWEST;
        if is_there && may_go && self.random.u64(0..100) < 31 {
            self.set(side, price, 0);
        } else {
            let quantity = self.lots(shape::QUANTITY);
            self.set(side, price, quantity);
        }
    }

    fn change_best(&mut self) {
        let side = if self.upward() { Side::Bid } else { Side::Ask };
        let (Some((bid, _)), Some((ask, _))) =
            (self.book.best(Side::Bid), self.book.best(Side::Ask))
        else {
            return;
        };
        let tick = self.contract.tick;
        let better = if side == Side::Bid { bid + tick } else { ask - tick };
        let is_free = better > bid && better < ask;
        let price = match side {
            _ if is_free && self.random.u64(0..100) < 60 => better,
            Side::Bid => bid,
            Side::Ask => ask,
        };
        let quantity = self.lots(shape::BEST_QUANTITY);
        self.set(side, price, quantity);
    }

    fn trade(
        &mut self,
        moment: &Moment,
        wanted: &dyn Fn(Channel) -> bool,
        tell: &mut dyn FnMut(Channel, String),
    ) {
        let taken = if self.upward() { Side::Ask } else { Side::Bid };
        let Some((price, there)) = self.book.best(taken) else { return };
        let mut quantity = (self.lots(shape::QUANTITY) / 4 / self.contract.lot).max(1);
        quantity = (quantity * self.contract.lot).min(there);
        if quantity == there && self.book.side(taken).len() <= FEWEST {
            return;
        }
        self.set(taken, price, there - quantity);
        self.trades += 1;
        let is_buyer_maker = taken == Side::Bid;
        let line = TradeLine { id: self.trades, price, quantity, is_buyer_maker };
        let text = || Text::new(&self.contract, moment.time_ms, moment.has_fields_of_2026);
        if wanted(Channel::AggTrade) {
            tell(Channel::AggTrade, text().aggregate_trade(line));
        }
        if wanted(Channel::Trade) {
            tell(Channel::Trade, text().trade(line));
        }
    }

    /// Takes a run of levels from one side and fills the other up behind them.
    fn jump(&mut self) {
        let taken = if self.upward() { Side::Ask } else { Side::Bid };
        let behind = other(taken);
        let tick = self.contract.tick;
        let ticks = self.random.i64(4..=120);
        let (Some((from, _)), Some((old, _))) = (self.book.best(taken), self.book.best(behind))
        else {
            return;
        };
        let away = if taken == Side::Ask { tick } else { -tick };
        let to = from + away * ticks;
        let gone: Vec<i64> = match taken {
            Side::Ask => self.book.asks.range(..to).map(|level| *level.0).collect(),
            Side::Bid => self.book.bids.range(to + 1..).map(|level| *level.0).collect(),
        };
        if to < tick || self.book.side(taken).len() < gone.len() + FEWEST {
            return;
        }
        for price in gone {
            self.set(taken, price, 0);
        }
        let mut price = old + away;
        while (away > 0 && price < to) || (away < 0 && price > to) {
            let is_last = price + away == to;
            if is_last || self.random.u64(0..100) < 70 {
                let quantity = self.lots(shape::QUANTITY);
                self.set(behind, price, quantity);
            }
            price += away;
        }
    }

    fn publish(
        &mut self,
        moment: &Moment,
        wanted: &dyn Fn(Channel) -> bool,
        mut tell: impl FnMut(Channel, String),
    ) {
        let Self { contract, book, view, changes, .. } = self;
        if moment.tick % 2 == 0 {
            let changes = view.follow(book).filter(|_| wanted(Channel::Books));
            if let Some(changes) = changes {
                tell(Channel::Books, view.update(changes, contract, moment.time_ms));
            }
        }
        for changes in changes.iter_mut().filter(|changes| moment.tick % changes.every == 0) {
            let Some(first) = changes.first.take() else { continue };
            let ids = (first, book.last, changes.previous);
            changes.previous = book.last;
            if wanted(changes.channel) {
                for prices in [&mut changes.bids, &mut changes.asks] {
                    prices.sort_unstable();
                    prices.dedup();
                }
                let text = Text::new(contract, moment.time_ms, moment.has_fields_of_2026);
                let text = text.depth(ids, |out, contract| {
                    let sides = [
                        (",\"b\":", &changes.bids, &book.bids),
                        (",\"a\":", &changes.asks, &book.asks),
                    ];
                    for (key, prices, levels) in sides {
                        out.push_str(key);
                        let now =
                            prices.iter().map(|price| (price, levels.get(price).unwrap_or(&0)));
                        write_levels(out, now, contract.digits);
                    }
                });
                tell(changes.channel, text);
            }
            changes.bids.clear();
            changes.asks.clear();
        }
    }

    fn mark(
        &self,
        moment: &Moment,
        wanted: &dyn Fn(Channel) -> bool,
        mut tell: impl FnMut(Channel, String),
    ) {
        let (Some((bid, _)), Some((ask, _))) =
            (self.book.best(Side::Bid), self.book.best(Side::Ask))
        else {
            return;
        };
        let middle = (bid + ask) / 2;
        let index = middle - middle / 5_000 + ONE / 10_000;
        let is_third = moment.tick % 60 == 1;
        for (channel, is_due) in [(Channel::MarkEverySecond, true), (Channel::Mark, is_third)] {
            if is_due && wanted(channel) {
                let text = Text::new(&self.contract, moment.time_ms, moment.has_fields_of_2026);
                tell(channel, text.mark(middle, index));
            }
        }
    }
}
