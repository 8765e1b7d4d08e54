//! Whatever goes wrong heals, and no wrong book is shown meanwhile.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use quietcore_feed::engine::{Address, Config, Notice};
use quietcore_feed::server::{Channel, Config as VenueConfig};
use quietcore_feed::tls::RecordPath;

use super::setup::*;

/// Follows a venue with these faults until the words were said (if any are to be), every fault has
/// struck and books are shown again.
fn follow(faults: &str, said: &str, change: impl Fn(&mut Config)) -> Outcome {
    follow_at(steady(faults), faults, said, change)
}

fn follow_at(
    venue: VenueConfig,
    faults: &str,
    said: &str,
    change: impl Fn(&mut Config),
) -> Outcome {
    let place = Place::new(venue);
    let mut config = place.config();
    change(&mut config);
    let mut engine = Followed::start(config);
    engine.until(faults, |_, notices| words(notices).contains(said));
    engine.until(faults, |_, _| place.venue.stats().faults > 0);
    let shown = engine.seen.lock().unwrap().books.len();
    engine.until(faults, |seen, _| seen.books.len() > shown + 40);
    engine.until_fresh(20);
    let found = engine.end();
    place.check_books(&found.seen, Channel::Depth100);
    found.check_counters();
    println!("{faults}: {:?}\n{}", found.summary.unused, words(&found.notices));
    found
}

/// Of the first instrument: gaps, resyncs, duplicates.
fn counted(found: &Outcome) -> (u64, u64, u64) {
    let counters = found.summary.markets[0].counters();
    (counters.gaps, counters.resyncs, counters.duplicates)
}

#[test]
fn changes_that_are_missing_or_late_lead_to_a_new_snapshot() {
    let found = follow("after 40 events gap 3 on btcusdt@depth", "a change is missing", |_| ());
    assert_eq!(counted(&found), (1, 1, 0));
    assert_eq!(found.seen.lost, [1, 0]);
    let faults = "after 40 events reorder 2 on btcusdt@depth";
    let found = follow(faults, "a change is missing", |_| ());
    assert!(found.summary.markets[0].counters().resyncs == 1 && found.seen.lost == [1, 0]);
    assert_eq!(found.summary.connections, 2);
}

#[test]
fn a_change_that_comes_twice_is_used_once() {
    let found = follow("after 40 events duplicate 2 on btcusdt@depth", "", |_| ());
    assert_eq!(counted(&found), (0, 0, 2));
    assert_eq!(found.seen.lost, [0, 0]);
}

#[test]
fn a_connection_that_ends_is_opened_again() {
    for (fault, said) in [
        ("drop", "1006"),
        ("close 1006", "1006"),
        ("close 1008 Too many requests", "the venue closed it with 1008: Too many requests"),
        ("half-close", "1006"),
        ("masked", "a frame from a server is masked"),
        ("corrupt", "a record does not authenticate"),
    ] {
        let found = follow(&format!("after 40 events {fault} on @depth"), said, |_| ());
        assert_eq!(found.seen.lost, [1, 1], "{fault}");
        assert_eq!((counted(&found).0, counted(&found).1), (0, 1), "{fault}");
        assert_eq!(found.summary.connections, 3, "{fault}");
        assert!(found.has("its connection is lost"));
        assert_eq!(found.summary.unused.malformed, 0);
    }
}

#[test]
fn what_is_only_strange_changes_nothing() {
    for record_path in [RecordPath::Own, RecordPath::Rustls] {
        for fault in ["ping-flood 500", "fragment 5", "key-update", "silence 1s"] {
            let found = follow(&format!("after 40 events {fault} on @depth"), "", |config| {
                config.record_path = record_path;
                config.silence = Duration::from_millis(200);
            });
            assert_eq!(found.seen.lost, [0, 0], "{fault}: {}", words(&found.notices));
            assert_eq!(counted(&found), (0, 0, 0), "{fault}");
            assert_eq!(found.summary.connections, 2, "{fault}");
            assert_eq!(found.summary.unused.malformed, 0, "{fault}");
        }
    }
}

#[test]
fn a_trickle_is_read_as_it_comes() {
    let faults = "after 40 events slow 400_000 on @depth";
    let found = follow_at(VenueConfig { coalesce: 64, ..as_read(faults) }, faults, "", |_| ());
    assert_eq!((found.seen.lost, found.summary.connections), ([0, 0], 2));
}

#[test]
fn a_connection_that_is_too_slow_for_the_venue_is_opened_again() {
    let faults = "after 40 events slow 1_000 on @depth";
    let venue = VenueConfig { queue: 10_000, ..steady(faults) };
    let found = follow_at(venue, faults, "the venue closed it with 1008: Too slow", |_| ());
    assert!(found.seen.lost.iter().all(|lost| *lost >= 1) && counted(&found).1 >= 1);
}

#[test]
fn messages_that_are_none_are_left_out() {
    for (fault, malformed) in [("garbage", 1), ("bad-text", 1), ("oversize 3_000_000", 0)] {
        let found = follow(&format!("after 40 events {fault} on @depth"), "", |_| ());
        assert_eq!(found.seen.lost, [0, 0], "{fault}: {}", words(&found.notices));
        assert_eq!(found.summary.unused.malformed, malformed, "{fault}");
        assert_eq!(found.summary.connections, 2, "{fault}");
    }
    let found = follow("after 40 events oversize 40_000_000 on @depth", "the limit is", |_| ());
    assert_eq!((found.seen.lost, found.summary.connections), ([1, 1], 3));
}

#[test]
fn a_venue_that_wants_to_be_left_alone_is() {
    for (status, meaning) in [(429, "too many requests"), (418, "banned"), (503, "HTTP 503")] {
        let found = follow(&format!("rest {status} retry-after 1s"), meaning, |_| ());
        let again = found.notices.iter().find_map(|notice| match notice {
            Notice::Failed { what, again, .. } if what.starts_with("snapshot of") => Some(*again),
            _ => None,
        });
        assert!(again.unwrap() >= Duration::from_secs(1), "{status}");
        assert_eq!(found.seen.lost, [0, 0]);
    }
}

#[test]
fn a_snapshot_of_another_time_is_not_joined() {
    let found = follow("snapshot stale 2 times", "", |_| ());
    let too_old: u64 =
        found.summary.markets.iter().map(|market| market.counters().snapshots_too_old).sum();
    assert!(too_old >= 1);
    let found = follow("snapshot future 10", "", |_| ());
    assert_eq!(counted(&found), (0, 0, 0));
}

#[test]
fn an_upgrade_that_is_refused_is_tried_again() {
    for (status, said) in [(503, "503"), (429, "429")] {
        let found = follow(&format!("upgrade {status}"), said, |_| ());
        assert_eq!(found.summary.connections, 2);
        assert!(found.has("connecting to /"));
    }
}

#[test]
fn a_bad_certificate_is_named_and_nothing_is_said_to_its_owner() {
    for (flaw, said) in [
        ("expired", "has expired"),
        ("wrong-name", "is not for 127.0.0.1"),
        ("unknown-issuer", "is not signed by a root trusted here"),
    ] {
        let place = Place::new(steady(&format!("certificate {flaw}")));
        let mut engine = Followed::start(place.config());
        engine.until(flaw, |_, notices| words(notices).contains(said));
        let found = engine.end();
        let stats = place.venue.stop();
        assert_eq!((stats.upgrades, stats.requests, stats.messages), (0, 0, 0), "{flaw}");
        assert!(stats.failed_handshakes > 0);
        assert_eq!((found.summary.connections, found.seen.books.len()), (0, 0), "{flaw}");
        println!("{flaw}: {}", found.notices[0]);
    }
}

/// What stands between a laptop and a venue on most days: no name, no listener, a portal that wants
/// a login first.
#[test]
fn a_venue_that_cannot_be_reached_is_named_with_what_to_look_at() {
    let place = Place::new(steady(""));
    let closed = {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        taken.local_addr().unwrap().port()
    };
    let portal = TcpListener::bind("127.0.0.1:0").unwrap();
    let its_port = portal.local_addr().unwrap().port();
    thread::spawn(move || {
        for guest in portal.incoming() {
            let mut guest = guest.unwrap();
            let _ = guest.read(&mut [0; 1_024]);
            let _ = guest.write_all(b"HTTP/1.1 302 Found\r\nLocation: http://login.lan/\r\n\r\n");
        }
    });
    for (host, port, parts) in [
        ("nowhere.invalid", 443, ["nowhere.invalid: the name cannot be resolved", "check DNS"]),
        ("127.0.0.1", closed, ["Connection refused", "that something listens there"]),
        ("127.0.0.1", its_port, ["plain HTTP came back", "captive portal"]),
    ] {
        let at = Some(Address { host: host.to_owned(), port });
        let mut engine = Followed::start(Config { at, ..place.config() });
        engine.until(host, |_, notices| {
            let said = words(notices);
            parts.iter().all(|part| said.contains(part)) && said.contains("trying again in")
        });
        assert_eq!(engine.end().summary.connections, 0);
    }
}
