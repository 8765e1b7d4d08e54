//! A strategy on the hot thread: how far the big orders lean, told the moment a book changes.
//!
//! ```text
//! cargo run --release -p quietcore-feed --example strategy -- BTCUSDT ETHUSDT
//! cargo run --release -p quietcore-feed --example strategy -- --at 127.0.0.1:9443 roots.pem BTCUSDT
//! ```
//!
//! Whatever a [`Handler`] does, the messages behind it wait for: this one adds ten numbers and stores
//! one. A strategy that needs longer follows from another thread, or from another process
//! (`quietcore_feed::publish`).

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use quietcore_feed::engine::{Config, Engine, Handler, parse_url};
use quietcore_feed::market::Side;
use quietcore_feed::sync::Market;
use quietcore_feed::tls::Roots;
use quietcore_feed::venues::find;

/// Levels of each side that count.
const LEVELS: usize = 5;
/// What is stored where a book is not proven.
const UNKNOWN: i64 = i64::MIN;

/// By instrument, the share of the bids in what the best levels offer, in thousandths.
struct Lean(Arc<[AtomicI64]>);

impl Handler for Lean {
    fn book(&mut self, symbol: usize, market: &Market) {
        let Some(book) = market.book() else { return };
        let sum =
            |side| book.levels(side).take(LEVELS).map(|level| i128::from(level.quantity.0)).sum();
        let [bids, asks]: [i128; 2] = [Side::Bid, Side::Ask].map(sum);
        let share = (bids * 1_000).checked_div(bids + asks).and_then(|share| share.try_into().ok());
        self.0[symbol].store(share.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    fn lost(&mut self, symbol: usize) {
        self.0[symbol].store(UNKNOWN, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let mut place = (None, Roots::System);
    if args.next_if_eq("--at").is_some() {
        let address = args.next().ok_or("--at HOST:PORT ROOTS.pem")?;
        place.0 = Some(parse_url(&address)?);
        place.1 = Roots::File(args.next().ok_or("--at HOST:PORT ROOTS.pem")?.into());
    }
    let symbols: Vec<String> = args.collect();
    let venue = find("binance-usdm")?;
    let config = Config { at: place.0, roots: place.1, ..Config::new(venue, symbols.clone()) };
    let leans: Arc<[AtomicI64]> = symbols.iter().map(|_| AtomicI64::new(UNKNOWN)).collect();
    let (engine, watch) = Engine::new(config, Lean(Arc::clone(&leans)))?;
    let stop = Arc::new(AtomicBool::new(false));
    let hot = thread::spawn({
        let stop = Arc::clone(&stop);
        move || engine.run(&stop)
    });
    for _ in 0..10 {
        thread::sleep(Duration::from_secs(1));
        watch.notices.try_iter().for_each(|notice| eprintln!("{notice}"));
        for (symbol, lean) in symbols.iter().zip(leans.iter()) {
            match lean.load(Ordering::Relaxed) {
                UNKNOWN => println!("{symbol}: no proven book"),
                share => {
                    println!("{symbol}: {:.1} % of the best levels are bids", share as f64 / 10.0)
                }
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    hot.join().map_err(|_| "the hot thread died")??;
    Ok(())
}
