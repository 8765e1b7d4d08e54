//! However the bytes are cut, the same is understood.

use quietcore_feed::market::{Levels, Says};
use quietcore_feed::recording::Reader;
use quietcore_feed::server::{Channel, Config as VenueConfig, Cutting, Settings};
use quietcore_feed::sync::{Market, MarketConfig, State};
use quietcore_feed::tls::RecordPath;
use quietcore_feed::venues::{Rule, find};

use super::setup::*;
use super::truth::Truth;

/// Changes of the book that are compared, from the market's first on.
const CHANGES: usize = 10;

/// The hash of a capture's first changes, from the market's first snapshot on: where the engine's
/// own snapshot came in plays no part.
fn hash(path: &std::path::Path, snapshot: &str) -> u64 {
    let venue = find("binance-usdm").unwrap();
    let mut market = Market::new(Rule::Bridge, MarketConfig::default());
    let mut levels = Levels::default();
    let Ok(Says::Depth(first)) = venue.scan(snapshot.as_bytes(), &mut levels).map(|m| m.says)
    else {
        panic!("no snapshot: {snapshot}");
    };
    let _ = market.on_depth(&first, &levels);
    let mut reader = Reader::open(path).unwrap();
    let mut changes = 0;
    while changes < CHANGES {
        let line = reader.next_line().unwrap().expect("more changes");
        match venue.scan(line.json, &mut levels).unwrap().says {
            Says::Depth(depth) if !depth.is_snapshot => {
                let _ = market.on_depth(&depth, &levels);
                assert_eq!(market.state(), State::Live);
                changes += 1;
            }
            _ => {}
        }
    }
    market.event_hash()
}

#[test]
fn the_same_is_understood_however_bytes_are_cut() {
    let settings = Settings { seed: 5, symbols: vec!["BTCUSDT".into()], ..Settings::default() };
    let truth = Truth::new(&settings, Channel::Depth100);
    let mut hashes = Vec::new();
    for record in ["..1", "..7", "..100", "whole"] {
        for write in ["1", "..1400"] {
            for coalesce in [1, 16] {
                let record_path = [RecordPath::Own, RecordPath::Rustls][hashes.len() % 2];
                let cutting =
                    Cutting { record: record.parse().unwrap(), write: write.parse().unwrap() };
                let config = VenueConfig { cutting, coalesce, seed: 3, ..as_read("") };
                let place = Place::with(config, settings.clone());
                let path = place.folder.path().join("capture");
                let mut config = place.config();
                config.capture = Some(path.clone());
                config.record_path = record_path;
                let mut engine = Followed::start(config);
                engine.until("books", |seen, _| seen.shown(0) >= CHANGES);
                let found = engine.end();
                let what = format!("records {record}, writes {write}, {coalesce} together");
                place.check_books(&found.seen, Channel::Depth100);
                found.check_counters();
                let mut reference = Truth::new(&settings, Channel::Depth100);
                let shown: Vec<u64> = found.seen.updates[0].iter().flatten().copied().collect();
                for two in shown.windows(2) {
                    assert_eq!(reference.previous(0, two[1]), Some(two[0]), "{what}");
                }
                assert_eq!(found.summary.unused.malformed, 0, "{what}");
                assert_eq!(found.seen.lost, [0, 0], "{what}");
                hashes.push(hash(&path, &truth.snapshots[0]));
                println!("{what}: {} books, hash {:x?}", shown.len(), hashes.last());
            }
        }
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:x?}");
}
