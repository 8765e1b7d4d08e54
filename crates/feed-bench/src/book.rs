//! S5: a change of a level, beside `BTreeMap`.
//!
//! Both take the same messages' levels and tell the best prices after each message.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{bail, ensure};
use quietcore_feed::book::{Book, BookConfig};
use quietcore_feed::market::{Levels, Says, Side as Of};
use quietcore_feed::venues::Venue;
use quietcore_feed::venues::binance_usdm::BinanceUsdm;

use crate::market::Sample;
use crate::trees::Trees;
use crate::turns::{Row, Target};

/// Messages that are timed together.
const TURN: usize = 50;

/// One row; `passes` over all messages.
pub fn rows(sample: &Sample, passes: usize) -> anyhow::Result<Vec<Row>> {
    let (snapshot, _) = sample.book()?;
    let mut changes = Vec::new();
    for text in &sample.messages {
        let mut levels = Levels::default();
        match BinanceUsdm.scan(text, &mut levels)?.says {
            Says::Depth(_) => changes.push(levels),
            _ => continue,
        }
    }
    let count: usize = changes.iter().map(|change| change.bids.len() + change.asks.len()).sum();
    if count == 0 {
        bail!("there is no change of a book in the messages");
    }
    let (mut book, mut trees) = (Book::new(BookConfig::default()), Trees::default());
    let mut times = [const { Vec::new() }; 2];
    // The first pass is not counted.
    for pass in 0..=passes {
        book.load(&snapshot);
        trees.load(&snapshot);
        for (turn, changes) in changes.chunks(TURN).enumerate() {
            let levels: usize = changes.iter().map(|c| c.bids.len() + c.asks.len()).sum();
            let mut took = [0.0; 2];
            for place in 0..2 {
                let side = (place + turn) % 2;
                took[side] = match side {
                    0 => ladder(&mut book, changes),
                    _ => tree(&mut trees, changes),
                };
            }
            if pass > 0 && levels > 0 {
                let per_level = took.map(|took| took / levels as f64);
                times.iter_mut().zip(per_level).for_each(|(times, took)| times.push(took));
            }
        }
        ensure!(trees.is(&book), "the books differ after the same changes");
    }
    let live = book.len(Of::Bid) + book.len(Of::Ask);
    let what = format!("S5 book, a level of {live}, {} a message", count / changes.len());
    Ok(vec![Row::of(what, &times[0], "BTreeMap", &times[1], Target::Ratio(0.15))])
}

fn ladder(book: &mut Book, changes: &[Levels]) -> f64 {
    let start = Instant::now();
    for change in changes {
        let change = black_box(change);
        book.apply_all(Of::Bid, &change.bids);
        book.apply_all(Of::Ask, &change.asks);
        black_box((book.best(Of::Bid), book.best(Of::Ask)));
    }
    start.elapsed().as_nanos() as f64
}

fn tree(trees: &mut Trees, changes: &[Levels]) -> f64 {
    let start = Instant::now();
    for change in changes {
        trees.change(black_box(change));
        black_box(trees.best());
    }
    start.elapsed().as_nanos() as f64
}
