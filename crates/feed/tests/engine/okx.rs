//! A venue whose stream begins with the book and proves it with checksums.

use quietcore_feed::engine::Config;
use quietcore_feed::server::{Begin, Config as VenueConfig};
use quietcore_feed::venues::Wanted;

use super::setup::*;

fn follow(faults: &str) -> (Place, Followed) {
    let place = Place::new(VenueConfig { begin: Begin::WithListeners(1), ..steady(faults) });
    let symbols = vec!["BTC-USDT-SWAP".to_owned(), "ETH-USDT-SWAP".to_owned()];
    let config = Config { wanted: Wanted::default(), ..place.config_for("okx", symbols) };
    let engine = Followed::start(config);
    (place, engine)
}

#[test]
fn every_checksum_is_right() {
    let (place, mut engine) = follow("");
    engine.until_fresh(200);
    let found = engine.end();
    found.check_counters();
    for market in &found.summary.markets {
        let counters = market.counters();
        assert!(counters.checksum_checked >= 200 && counters.checksum_mismatch == 0);
        assert_eq!((counters.gaps, counters.snapshots), (0, 1));
        println!("{counters:?}");
    }
    assert_eq!(place.venue.stop().requests, 0);
}

#[test]
fn a_gap_leads_to_a_new_subscription() {
    let (_place, mut engine) = follow("after 30 events gap on btcusdt@books");
    engine.until("the gap", |_, notices| words(notices).contains("a change is missing"));
    engine.until_fresh(30);
    let found = engine.end();
    found.check_counters();
    let counters = found.summary.markets[0].counters();
    assert_eq!((counters.gaps, counters.resyncs, counters.checksum_mismatch), (1, 1, 0));
    assert_eq!(found.summary.connections, 2);
    assert!(found.has("subscribing anew"), "{}", words(&found.notices));
}
