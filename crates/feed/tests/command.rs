//! The command, as people call it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::process::{Command, Output};

use quietcore_feed::server::{Generator, Settings, Source};

fn feed(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quietcore-feed")).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A made-up market of one instrument: so many messages, with the snapshot after the first ten.
fn recording(messages: usize, left_out: Option<usize>) -> String {
    let symbols = vec!["BTCUSDT".to_owned()];
    let settings = Settings { symbols, ..Settings::default() };
    let mut source = Source::Generated(Box::new(Generator::new(settings)));
    let (mut lines, mut events) = (String::new(), Vec::new());
    let mut count = 0;
    while count < messages {
        source.step(&|_| true, &mut events);
        for event in events.drain(..) {
            let is_wanted =
                ["depthUpdate", "bookTicker"].iter().any(|kind| event.text.contains(kind));
            if !is_wanted || event.text.contains("\"e\":\"24hr") {
                continue;
            }
            count += 1;
            if left_out != Some(count) {
                lines += &format!("{} {}\n", event.at, event.text);
            }
        }
        if count >= 10 && !lines.contains("lastUpdateId") {
            let snapshot = source.snapshot(0, 1000, quietcore_feed::server::Age::Now).unwrap();
            lines += &format!("1 {snapshot}\n");
        }
    }
    lines
}

#[test]
fn a_recording_is_proven_or_the_exit_code_says_that_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("market.log");
    fs::write(&path, recording(2_000, None)).unwrap();
    let file = path.to_str().unwrap();
    let output = feed(&["replay", file, "--check", "--format", "json"]);
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let table = &run["sections"][0];
    assert_eq!(table["name"], "book_check", "{}", said(&output));
    let row = table["rows"][0].as_array().unwrap();
    assert_eq!(row[0], "BTCUSDT");
    let [depth, bridged, gaps, crossed, checked, wrong] =
        [1, 2, 3, 4, 5, 6].map(|at| row[at].as_u64().unwrap());
    assert!(bridged > 10 && bridged <= depth && checked > 10, "{row:?}");
    assert_eq!((gaps, crossed, wrong), (0, 0, 0));
    assert_eq!(output.status.code(), Some(0));

    fs::write(&path, format!("nonsense\n{}", recording(500, None))).unwrap();
    let output = feed(&["replay", file, "--check"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("line 1"), "{shown}");
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let cases: [(&[&str], &str); 6] = [
        (&["replay", "/nowhere.gz"], "/nowhere.gz"),
        (&["run", "--symbols", "A", "--url", "ws://a"], "only TLS"),
        (&["run", "--symbols", "A", "--venue", "kraken"], "binance-usdm"),
        (&["run", "--symbols", "A", "--roots", "/nowhere.pem"], "/nowhere.pem"),
        (&["venue", "--rate", "0"], "more than 0"),
        (&["venue", "--faults", "after 5 events gasp"], "line 1"),
    ];
    for (args, expected) in cases {
        let output = feed(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(said(&output).contains(expected), "{args:?}: {}", said(&output));
    }
}
