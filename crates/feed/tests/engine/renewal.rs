//! Connections are replaced in time, and nobody notices.

use std::time::Duration;

use quietcore_feed::engine::{Config, Mode, Notice};
use quietcore_feed::server::{Channel, Config as VenueConfig};

use super::setup::*;

#[test]
fn a_connection_is_replaced_before_the_venue_ends_it() {
    for mode in [Mode::Block, Mode::RecvSpin] {
        let longest = Duration::from_secs(20);
        let place = Place::new(VenueConfig { longest, ..steady("") });
        let renew_after = Some(Duration::from_secs(1));
        let mut engine = Followed::start(Config { renew_after, mode, ..place.config() });
        let opened = |notices: &[Notice]| {
            notices.iter().filter(|notice| matches!(notice, Notice::Connected { .. })).count()
        };
        engine.until("renewals", |_, notices| opened(notices) >= 12);
        let found = engine.end();
        place.check_books(&found.seen, Channel::Depth100);
        for number in 0..2 {
            place.check_numbers(&found.seen.quotes[number], Channel::BookTicker, "u", number);
            place.check_numbers(&found.seen.trades[number], Channel::AggTrade, "a", number);
        }
        found.check_counters();
        assert!(found.summary.renewals >= 6, "{}", found.summary.renewals);
        assert!(!found.has("lost:"), "{}", words(&found.notices));
        assert_eq!(found.seen.lost, [0, 0], "{}", words(&found.notices));
        for (number, market) in found.summary.markets.iter().enumerate() {
            let counters = market.counters();
            assert_eq!((counters.gaps, counters.resyncs), (0, 0));
            println!("{number}: {} trades, {counters:?}", found.seen.trades[number].len());
        }
        println!(
            "{}: {} renewals, {} connections, {:?}",
            mode.name(),
            found.summary.renewals,
            found.summary.connections,
            found.summary.unused
        );
    }
}

/// Here a connection may break before, while or after its successor takes over.
#[test]
fn a_connection_may_break_while_it_is_replaced() {
    let place = Place::new(steady("every 45 events drop on @depth"));
    let renew_after = Some(Duration::from_millis(250));
    let mut engine = Followed::start(Config { renew_after, ..place.config() });
    let is_books = |notice: &&Notice| matches!(notice, Notice::Connected { path, .. } if path.starts_with("/public"));
    engine.until("connections", |_, notices| notices.iter().filter(is_books).count() >= 7);
    engine.until_fresh(5);
    let found = engine.end();
    place.check_books(&found.seen, Channel::Depth100);
    found.check_counters();
    for number in 0..2 {
        place.check_numbers(&found.seen.trades[number], Channel::AggTrade, "a", number);
    }
    println!("{} renewals, {}", found.summary.renewals, words(&found.notices));
}
