//! Every way to wait and to decrypt, and what is captured.

use quietcore_feed::engine::Mode;
use quietcore_feed::recording::check::BookCheck;
use quietcore_feed::server::Channel;
use quietcore_feed::sync::MarketConfig;
use quietcore_feed::tls::RecordPath;
use quietcore_feed::venues::{Rule, find};

use super::setup::*;

#[test]
fn every_mode_and_record_path_shows_the_markets_books() {
    for mode in Mode::ALL {
        for record_path in [RecordPath::Own, RecordPath::Rustls] {
            let place = Place::new(as_read(""));
            let config = place.config();
            let ring = 1 << 20;
            let config = quietcore_feed::engine::Config { mode, record_path, ring, ..config };
            let mut engine = Followed::start(config);
            engine.until_fresh(150);
            let found = engine.end();
            place.check_books(&found.seen, Channel::Depth100);
            found.check_counters();
            let name = mode.name();
            let unused = &found.summary.unused;
            assert_eq!((unused.malformed, unused.not_asked_for, unused.doubled), (0, 0, 0));
            for (number, market) in found.summary.markets.iter().enumerate() {
                let counters = market.counters();
                assert!(counters.bbo_checked > 0, "{name} {record_path:?}");
                assert_eq!((counters.gaps, counters.resyncs, counters.duplicates), (0, 0, 0));
                assert!(found.seen.trades[number].windows(2).all(|two| two[1] == two[0] + 1));
                assert!(found.seen.quotes[number].windows(2).all(|two| two[1] > two[0]));
            }
            // Every message is in the ring; none was overwritten before it was drained.
            let told: usize =
                found.seen.trades.iter().chain(&found.seen.quotes).map(Vec::len).sum();
            let changes: u64 =
                found.summary.markets.iter().map(|market| market.counters().depth_events).sum();
            assert_eq!(found.missed, 0);
            assert_eq!(found.stages.messages(), told as u64 + changes);
            assert_eq!((found.summary.connections, found.summary.renewals), (2, 0));
            let place_stats = place.venue.stop();
            println!(
                "{name} {record_path:?}: {} messages, {} books compared, {} of {} bytes' messages",
                found.stages.messages(),
                found.seen.books.len(),
                place_stats.messages,
                place_stats.bytes
            );
        }
    }
}

#[test]
fn a_capture_replays_to_the_same_books() {
    let place = Place::new(as_read(""));
    let path = place.folder.path().join("capture.gz");
    let config = quietcore_feed::engine::Config { capture: Some(path.clone()), ..place.config() };
    let mut engine = Followed::start(config);
    engine.until_fresh(300);
    let found = engine.end();
    found.check_counters();
    let venue = find("binance-usdm").unwrap();
    let check = BookCheck::of(&path, Rule::Bridge, MarketConfig::default(), |text, levels| {
        venue.scan(text, levels)
    });
    let check = check.unwrap();
    // The snapshots came by another way than the messages.
    assert_eq!(Some(check.messages), found.summary.captured);
    assert_eq!(check.messages, found.stages.messages() + 2);
    assert_eq!((check.not_understood, check.bad_lines, check.replay.unassigned()), (0, 0, 0));
    for (symbol, replayed) in check.replay.markets() {
        let number = place.settings.symbols.iter().position(|name| name == symbol).unwrap();
        let market = &found.summary.markets[number];
        assert_eq!(replayed.event_hash(), market.event_hash(), "{symbol}");
        assert_eq!(replayed.last(), market.last());
        let counters = replayed.counters();
        assert_eq!((counters.gaps, counters.bbo_mismatch, counters.crossed), (0, 0, 0));
        assert!(counters.bridged >= 300 && counters.bbo_checked > 0);
        println!("{symbol}: {counters:?}");
    }
}

#[test]
fn a_configuration_that_cannot_be_is_refused_before_anything_is_connected() {
    use quietcore_feed::engine::{Config, Engine};
    let place = Place::new(as_read(""));
    let refused = |config: Config| Engine::new(config, ()).unwrap_err().to_string();
    let with = |symbols: &[&str]| {
        place.config_for("binance-usdm", symbols.iter().map(|name| (*name).to_owned()).collect())
    };
    assert_eq!(refused(with(&[])), "no instrument is named");
    assert_eq!(refused(with(&["BTCUSDT", "btcusdt"])), "\"btcusdt\" is named twice");
    assert!(refused(with(&["BTC USDT"])).contains("cannot be the name"));
    let nowhere = Config { capture: Some("/nowhere/there/x".into()), ..with(&["BTCUSDT"]) };
    assert!(refused(nowhere).contains("capture"));
    assert_eq!(place.venue.stats().connections, 0);
}
