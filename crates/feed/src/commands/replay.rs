//! `quietcore feed replay`: plays a recording into books and says how right they were.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch};
use quietcore_facts::Facts;
use quietcore_measure::{Cell, Run as Record, Section, Table, Validity, Verdict};
use quietcore_sys::Host;

use super::{sections, venue};
use crate::recording::check::BookCheck;
use crate::sync::{Counters, MarketConfig};
use crate::venues::Venue;

/// Play a recording into books, and prove them against the venue's own quotes or checksums
///
/// A recording is lines of `<receive time in ns> <JSON>`, plain or gzipped: what `feed run --capture`
/// writes, and what others record. Messages may be in the combined streams' wrapper or bare, snapshots
/// stand where they came. A book is compared with every quote that belongs to its position
/// (`bbo_checked`), or with every checksum. What cannot be read is counted, named by its line and left
/// out. Needs no privilege and writes nothing but its result.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore feed replay btc.gz                    what the recording holds, and how right
    quietcore feed replay btc.gz --check            the same, and exit code 1 if anything is wrong
    quietcore feed replay okx.gz --venue okx        another venue's")]
pub struct Replay {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Whose messages they are
    #[arg(long, value_name = "VENUE", default_value = "binance-usdm", value_parser = venue())]
    venue: &'static dyn Venue,

    /// Exit code 1 if a change is missing, a book is crossed or not what the venue says
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    output: Output,
}

impl Replay {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let facts = Facts::of(Host::live());
        let began = Instant::now();
        let venue = self.venue;
        let config = MarketConfig::default();
        let played = BookCheck::of(&self.file, venue.rule(), config, |text, levels| {
            venue.scan(text, levels)
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let mut run: Record = watch.stop(facts.summary());
        run.validity = validity(&played);
        run.sections = vec![
            Section::Table(played.table()),
            Section::Table(books(&played)),
            Section::Table(recording(&played, seconds)),
        ];
        sink.write(&run)?;
        Ok(Exit::findings(self.check && is_wrong(&played)))
    }
}

fn is_wrong(played: &BookCheck) -> bool {
    let is_wrong = |counters: &Counters| {
        counters.gaps + counters.crossed + counters.bbo_mismatch + counters.checksum_mismatch > 0
    };
    played.not_understood + played.bad_lines > 0
        || played.replay.markets().any(|(_, market)| is_wrong(market.counters()))
        || played.replay.markets().next().is_none()
}

fn validity(played: &BookCheck) -> Validity {
    let mut validity = Validity::default();
    for error in &played.errors {
        validity.note(Verdict::Incomplete, error.clone());
    }
    let left_out = [
        (played.bad_lines, "lines are none of a recording and were left out"),
        (played.not_understood, "messages are not what the venue documents and were left out"),
        (played.replay.unassigned(), "snapshots name no instrument and fit none"),
    ];
    for (count, what) in left_out.iter().filter(|(count, _)| *count > 0) {
        validity.note(Verdict::Incomplete, format!("{count} {what}"));
    }
    if played.replay.markets().next().is_none() {
        validity.note(Verdict::Incomplete, "there is no change of a book in it");
    }
    validity
}

/// The books at the end.
fn books(played: &BookCheck) -> Table {
    let columns = ["symbol", "state", "best_bid", "best_ask", "levels", "snapshots", "resyncs"];
    let columns = [&columns[..], &["duplicates", "event_hash"]].concat();
    let mut table = Table::new("replay_books", "The books at the end", &columns);
    for (symbol, market) in played.replay.markets() {
        let counters = market.counters();
        let mut row: Vec<Cell> = vec![symbol.into()];
        row.extend(sections::state(market));
        row.extend([counters.snapshots, counters.resyncs, counters.duplicates].map(Cell::from));
        row.push(format!("{:016x}", market.event_hash()).into());
        table.rows.push(row);
    }
    table
}

fn recording(played: &BookCheck, seconds: f64) -> Table {
    let mut table = Table::new("replay_recording", "The recording", &["what", "value"]);
    let mut row = |what: &str, value: Cell| table.rows.push(vec![what.into(), value]);
    row("messages", played.messages.into());
    row("messages not understood", played.not_understood.into());
    row("bad lines", played.bad_lines.into());
    row(
        "messages a second, read twice and unpacked",
        (played.messages as f64 / seconds).round().into(),
    );
    table
}
