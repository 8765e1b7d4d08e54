//! What an engine has done, as parts of a run.

use quietcore_measure::{Cell, Distribution, Section, Table, Validity, Verdict};

use crate::engine::{Mode, Summary};
use crate::market::{Level, Side};
use crate::stages::{Kind, Stage, StageHists};
use crate::sync::{Market, State};

/// Whether somebody should look: a book that is not proven, or not what the venue says.
pub(super) fn is_bad(summary: &Summary) -> bool {
    let is_wrong = |market: &Market| {
        let counters = market.counters();
        market.state() != State::Live || counters.bbo_mismatch + counters.checksum_mismatch > 0
    };
    summary.markets.iter().any(is_wrong)
}

/// The total of all messages, and every stage that was seen.
pub(super) fn stages(hists: &StageHists, mode: Mode) -> Vec<Section> {
    let of = |label: &str, hist| {
        Section::Distribution(Distribution::of("feed_stages", "ns", &[("stage", label)], hist))
    };
    // A spinning thread cannot tell S1 from S0, and without a kernel's stamp there is no S0.
    let is_none = |stage| mode.spins() && stage == Stage::Read || hists.stage(stage).is_empty();
    let shown = Stage::ALL.iter().filter(|stage| !is_none(**stage));
    let label = |stage: Stage| match (stage, mode.spins()) {
        (Stage::Wake, true) => "S0+S1 wake, read",
        (stage, _) => stage.name(),
    };
    let stages = shown.map(|&stage| of(label(stage), hists.stage(stage)));
    stages.chain([of("total", hists.total())]).collect()
}

/// The whole way, by what the message was.
pub(super) fn kinds(hists: &[StageHists; 4]) -> Vec<Section> {
    let seen = Kind::ALL.iter().zip(hists).filter(|(_, hists)| !hists.total().is_empty());
    let of = |(kind, hists): (&Kind, &StageHists)| {
        let labels = [("message", kind.name())];
        Section::Distribution(Distribution::of("feed_messages", "ns", &labels, hists.total()))
    };
    seen.map(of).collect()
}

/// Every book, and how it was proven.
pub(super) fn books(summary: &Summary, symbols: &[String]) -> Table {
    let mut table = Table::new(
        "feed_books",
        "Books",
        &[
            "symbol",
            "state",
            "best_bid",
            "best_ask",
            "levels",
            "depth_events",
            "bridged",
            "gaps",
            "crossed",
            "resyncs",
            "duplicates",
            "bbo_checked",
            "bbo_mismatch",
            "checksum_checked",
            "checksum_mismatch",
        ],
    );
    table.rows = symbols.iter().zip(&summary.markets).map(row).collect();
    table
}

/// Whether a book is proven, its best prices and how many levels it has.
pub(super) fn state(market: &Market) -> [Cell; 4] {
    let best = |side| {
        let level: Option<Level> = market.book().and_then(|book| book.best(side));
        level.map_or(Cell::Empty, |level| level.price.to_string().into())
    };
    let levels = market
        .book()
        .map_or(Cell::Empty, |book| (book.len(Side::Bid) + book.len(Side::Ask)).into());
    let state = match market.state() {
        State::Live => "proven",
        State::Waiting => "not proven",
    };
    [state.into(), best(Side::Bid), best(Side::Ask), levels]
}

fn row((symbol, market): (&String, &Market)) -> Vec<Cell> {
    let counters = market.counters();
    let counts = [
        counters.depth_events,
        counters.bridged,
        counters.gaps,
        counters.crossed,
        counters.resyncs,
        counters.duplicates,
        counters.bbo_checked,
        counters.bbo_mismatch,
        counters.checksum_checked,
        counters.checksum_mismatch,
    ];
    let head = std::iter::once(symbol.as_str().into()).chain(state(market));
    head.chain(counts.map(Cell::from)).collect()
}

/// The engine itself.
pub(super) fn engine(summary: &Summary, hists: &StageHists, mode: Mode, clock: &str) -> Table {
    let mut table = Table::new("feed_engine", "The engine", &["what", "value"]);
    let mut row = |what: &str, value: Cell| table.rows.push(vec![what.into(), value]);
    row("mode", mode.name().into());
    row("clock", clock.into());
    row("messages", hists.messages().into());
    row("stages that do not add up", hists.not_adding_up.into());
    row("messages without a kernel's stamp", hists.unstamped.into());
    row("connections opened", summary.connections.into());
    row("connections renewed in time", summary.renewals.into());
    row("malformed messages, left out", summary.unused.malformed.into());
    row("messages of other instruments", summary.unused.not_asked_for.into());
    row("trades that had come before", summary.unused.old_trades.into());
    row("messages that the other connection had brought", summary.unused.doubled.into());
    let hardware = match summary.hardware_stamps {
        0 => Cell::Unsupported { unsupported: "the card stamps nothing".to_owned() },
        reads => reads.into(),
    };
    row("reads stamped by the card", hardware);
    let napi = summary.napi.map_or_else(
        || Cell::Unsupported { unsupported: "packets come by no queue that can be polled".into() },
        |id| u64::from(id).into(),
    );
    row("queue to busy-poll (NAPI id)", napi);
    if let Some(messages) = summary.captured {
        row("messages captured", messages.into());
    }
    table
}

/// What is known of the run's quality.
pub(super) fn validity(
    summary: &Summary,
    hists: &StageHists,
    missed: u64,
    symbols: &[String],
) -> Validity {
    let mut validity = Validity::default();
    if missed > 0 {
        validity.lost_events = missed;
        validity.note(Verdict::Incomplete, format!("the times of {missed} messages were lost"));
    }
    if hists.unstamped > 0 {
        let (without, of) = (hists.unstamped, hists.messages());
        let note = format!("{without} of {of} messages had no kernel's stamp: no S0 and no total");
        validity.note(Verdict::Valid, note);
    }
    let waiting = symbols.iter().zip(&summary.markets);
    for (symbol, _) in waiting.filter(|(_, market)| market.state() == State::Waiting) {
        validity.note(Verdict::Incomplete, format!("{symbol}: the book was not proven at the end"));
    }
    match &summary.usage {
        Some(usage) if usage.involuntary_switches > 0 => validity.note(
            Verdict::Disturbed,
            format!(
                "the hot thread was switched out {} times: the tail is not the engine's",
                usage.involuntary_switches
            ),
        ),
        Some(_) => {}
        None => validity.note(Verdict::Valid, "involuntary switches could not be read"),
    }
    validity
}
