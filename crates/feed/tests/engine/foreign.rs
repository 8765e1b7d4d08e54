//! Venues by other hands: Python's `websockets` and aiohttp, each over Python's own TLS.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use quietcore_feed::engine::{Address, Config};
use quietcore_feed::server::{Age, Channel, Generator, Settings, Source};
use quietcore_feed::tls::Roots;
use quietcore_feed::venues::find;

use super::setup::*;
use super::truth::Truth;

/// Fewer than an engine holds while it waits for a snapshot: all may come before that.
const CHANGES: usize = 60;
/// The snapshot is of the moment after so many.
const SNAPSHOT_AFTER: usize = 10;

fn settings() -> Settings {
    Settings { seed: 5, symbols: vec!["BTCUSDT".to_owned()], ..Settings::default() }
}

/// Writes a certificate and what the venue says. Trades, and the last update.
fn write_venue(folder: &Path) -> (usize, u64) {
    let made = Command::new("openssl")
        .current_dir(folder)
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("the program openssl is part of these tests").success());
    let mut market = Source::Generated(Box::new(Generator::new(settings())));
    let (mut public, mut trades, mut events) = (String::new(), String::new(), Vec::new());
    let (mut changes, mut last) = (0, 0);
    while changes < CHANGES {
        let wanted = [Channel::Depth100, Channel::BookTicker, Channel::AggTrade];
        market.step(&|stream| wanted.contains(&stream.channel), &mut events);
        for event in events.drain(..) {
            let route = match event.stream.channel {
                Channel::AggTrade => &mut trades,
                _ => &mut public,
            };
            *route += &event.text;
            route.push('\n');
            if event.stream.channel == Channel::Depth100 {
                changes += 1;
                let change: serde_json::Value = serde_json::from_str(&event.text).unwrap();
                last = change["u"].as_u64().unwrap();
            }
        }
        if changes == SNAPSHOT_AFTER {
            let snapshot = market.snapshot(0, usize::MAX, Age::Now).unwrap();
            fs::write(folder.join("snapshot"), snapshot).unwrap();
        }
    }
    fs::write(folder.join("public"), public).unwrap();
    fs::write(folder.join("market"), &trades).unwrap();
    (trades.lines().count(), last)
}

/// The other hand's process.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn follow(library: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (trades, last) = write_venue(folder.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/foreign.py");
    // Not whatever comes first on the PATH: the packages are the distribution's.
    let mut python = Command::new("/usr/bin/python3");
    let child = python.arg(script).arg(library).arg(folder.path()).stdout(Stdio::piped()).spawn();
    let mut other = Other(child.expect("python3 is part of these tests"));
    let mut port = String::new();
    BufReader::new(other.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let port = port.trim().parse().unwrap_or_else(|_| panic!("{library} did not start: {port:?}"));
    let config = Config {
        at: Some(Address { host: "127.0.0.1".to_owned(), port }),
        roots: Roots::File(folder.path().join("certificate.pem")),
        publish: false,
        ..Config::new(find("binance-usdm").unwrap(), settings().symbols)
    };
    let mut engine = Followed::start(config);
    engine.until(library, |seen, _| {
        let update = seen.updates[0].last().copied().flatten();
        update == Some(last) && seen.trades[0].len() == trades
    });
    let found = engine.end();
    found.check_counters();
    let mut truth = Truth::new(&settings(), Channel::Depth100);
    for (symbol, update, shown) in &found.seen.books {
        assert_eq!(truth.top(*symbol, *update), Some(shown), "{library}: {update}");
    }
    let counters = found.summary.markets[0].counters();
    assert_eq!((counters.gaps, counters.snapshots), (0, 1), "{library}: {counters:?}");
    assert!(counters.bbo_checked > 0, "{library}: {counters:?}");
    assert_eq!(found.summary.unused.malformed, 0);
    println!("{library}: {counters:?}");
}

#[test]
fn a_venue_by_pythons_websockets() {
    follow("websockets");
}

#[test]
fn a_venue_by_aiohttp() {
    follow("aiohttp");
}
