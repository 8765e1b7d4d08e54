//! S4: a message's text, beside sonic-rs and serde_json.
//!
//! Every reader gets the same messages and gives prices and quantities as numbers: ours as fixed
//! point, the others as `f64`, which is how they are used. They read into borrowing types, as their
//! documentation advises. sonic-rs asks for the CPU's own instructions besides: see
//! [`crate::command`].

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, ensure};
use quietcore_feed::market::{Level, Levels, Says};
use quietcore_feed::venues::Venue;
use quietcore_feed::venues::binance_usdm::BinanceUsdm;

use crate::market::Sample;
use crate::messages::{Depth, Ticker, Wrapped, number, units};
use crate::turns::{Row, Side, Target, take_turns};

/// Messages of a turn: few, so that other work on the machine spoils few rounds.
const TURN: usize = 32;

/// What a reader keeps from message to message.
#[derive(Debug, Default)]
struct Kept {
    levels: Levels,
    sides: [Vec<(f64, f64)>; 2],
    quote: [f64; 4],
}

type Reader = fn(&[u8], &mut Kept) -> anyhow::Result<()>;

fn ours(text: &[u8], kept: &mut Kept) -> anyhow::Result<()> {
    black_box(BinanceUsdm.scan(text, &mut kept.levels)?);
    Ok(())
}

fn keep_depth(depth: &Depth<'_>, kept: &mut Kept) -> anyhow::Result<()> {
    for (side, rows) in kept.sides.iter_mut().zip([&depth.bids, &depth.asks]) {
        side.clear();
        for [price, quantity] in rows {
            let level = number(price).zip(number(quantity));
            side.push(level.context("a level is no number")?);
        }
    }
    black_box((depth.symbol, depth.time, depth.first, depth.last, depth.previous));
    Ok(())
}

fn keep_ticker(ticker: &Ticker<'_>, kept: &mut Kept) -> anyhow::Result<()> {
    kept.quote = ticker.numbers().context("a price is no number")?;
    black_box((ticker.symbol, ticker.time, ticker.update));
    Ok(())
}

/// Each library's readers of the two kinds of messages.
macro_rules! readers {
    ($module:ident, $library:ident) => {
        mod $module {
            use super::*;

            pub fn depth(text: &[u8], kept: &mut Kept) -> anyhow::Result<()> {
                let message: Wrapped<'_, Depth<'_>> = $library::from_slice(text)?;
                keep_depth(&message.data, kept)
            }

            pub fn ticker(text: &[u8], kept: &mut Kept) -> anyhow::Result<()> {
                let message: Wrapped<'_, Ticker<'_>> = $library::from_slice(text)?;
                keep_ticker(&message.data, kept)
            }
        }
    };
}

readers!(sonic, sonic_rs);
readers!(serde, serde_json);

/// Rows for both kinds of messages.
pub fn rows(depths: &Sample, mixed: &Sample, rounds: usize) -> anyhow::Result<Vec<Row>> {
    let depths: Vec<_> = depths.messages.iter().map(Vec::as_slice).collect();
    let is_ticker = |text: &&[u8]| {
        let mut levels = Levels::default();
        BinanceUsdm.scan(text, &mut levels).is_ok_and(|m| matches!(m.says, Says::Quote(_)))
    };
    let tickers: Vec<_> = mixed.messages.iter().map(Vec::as_slice).filter(is_ticker).collect();
    let mut rows = Vec::new();
    let depth: [Reader; 3] = [ours, sonic::depth, serde::depth];
    let targets = [Target::Ratio(0.30), Target::Ratio(0.20)];
    rows.extend(compare("S4 JSON, depth", &depths, depth, targets, rounds)?);
    let ticker: [Reader; 3] = [ours, sonic::ticker, serde::ticker];
    let targets = [Target::None, Target::None];
    rows.extend(compare("S4 JSON, bookTicker", &tickers, ticker, targets, rounds)?);
    Ok(rows)
}

fn compare(
    kind: &str,
    messages: &[&[u8]],
    readers: [Reader; 3],
    targets: [Target; 2],
    rounds: usize,
) -> anyhow::Result<Vec<Row>> {
    ensure!(messages.len() >= TURN, "{kind}: only {} messages", messages.len());
    for text in messages {
        agree(text, readers).with_context(|| String::from_utf8_lossy(text).into_owned())?;
    }
    let side = |reader: Reader| -> Side<'_> {
        let mut kept = Kept::default();
        let mut turns = messages.chunks_exact(TURN).cycle();
        Box::new(move || {
            let turn = turns.next().context("there are messages")?;
            let start = Instant::now();
            for text in turn {
                reader(black_box(text), &mut kept)?;
                black_box(&kept);
            }
            Ok(start.elapsed().as_nanos() as f64 / TURN as f64)
        })
    };
    let times = take_turns(rounds, &mut readers.map(side))?;
    let bytes = messages.iter().map(|text| text.len()).sum::<usize>() / messages.len();
    let what = format!("{kind}, {bytes} B");
    Ok(vec![
        Row::of(what.clone(), &times[0], "sonic-rs, typed", &times[1], targets[0]),
        Row::of(what, &times[0], "serde_json, typed", &times[2], targets[1]),
    ])
}

/// All have read the same numbers.
fn agree(text: &[u8], readers: [Reader; 3]) -> anyhow::Result<()> {
    let mut levels = Levels::default();
    let says = BinanceUsdm.scan(text, &mut levels)?.says;
    for reader in &readers[1..] {
        let mut kept = Kept::default();
        reader(text, &mut kept)?;
        let is_same = match says {
            Says::Depth(_) => {
                same(&levels.bids, &kept.sides[0]) && same(&levels.asks, &kept.sides[1])
            }
            Says::Quote(quote) => {
                let Level { price, quantity } = quote.bid;
                let ours = [price, quantity, quote.ask.price, quote.ask.quantity];
                ours.iter().zip(kept.quote).all(|(ours, theirs)| ours.0 == units(theirs))
            }
            _ => false,
        };
        ensure!(is_same, "two readers read it differently");
    }
    Ok(())
}

fn same(ours: &[Level], theirs: &[(f64, f64)]) -> bool {
    let pairs = theirs.iter().map(|(price, quantity)| (units(*price), units(*quantity)));
    ours.iter().map(|level| (level.price.0, level.quantity.0)).eq(pairs)
}
