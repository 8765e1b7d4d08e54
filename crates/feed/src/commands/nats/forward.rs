//! The way from the shared memory to the broker.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use quietcore_console::{Exit, Stopwatch, interrupted};
use quietcore_facts::Facts;
use quietcore_measure::{Cell, Section, Table, Verdict};
use quietcore_sys::Host;
use serde_json::Value;

use super::Nats;
use crate::broker::{Broker, Message, Settings};
use crate::commands::watch::{age, object, only};
use crate::publish::{Follower, is_published};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// What was sent to the broker, and what was not.
#[derive(Debug, Default)]
struct Counts {
    sent: u64,
    /// The broker was away, or too slow.
    unsent: u64,
    /// How often it went away.
    away: u64,
}

impl Nats {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let pid = self.pid.map_or_else(only, Ok)?;
        let mut follower =
            Follower::open(pid).context("no engine publishes there: feed run --publish does")?;
        let broker = Broker::connect(&Settings {
            servers: self.server.clone(),
            credentials: self.credentials.clone(),
            roots: self.roots.clone(),
        })?;
        self.output.say(format_args!("publishing {}.SYMBOL.KIND; Ctrl-C ends it", self.subject));
        let counts = self.forward(pid, &mut follower, &broker)?;
        let is_taken = broker.close();
        let mut run = watch.stop(Facts::of(Host::live()).summary());
        let lost = counts.unsent + follower.missed();
        if lost > 0 {
            run.validity.note(Verdict::Incomplete, format!("{lost} messages were not sent"));
        }
        if !is_taken {
            let note = "the broker was away at the end: it may lack the last messages";
            run.validity.note(Verdict::Incomplete, note.to_owned());
        }
        run.sections = vec![Section::Table(table(&counts, follower.missed()))];
        sink.write(&run)?;
        Ok(Exit::findings(lost > 0 || !is_taken))
    }

    /// Until the engine ends, or somebody says so.
    fn forward(
        &self,
        pid: u32,
        follower: &mut Follower,
        broker: &Broker,
    ) -> anyhow::Result<Counts> {
        let end = interrupted();
        let until = self.duration.map(|time| Instant::now() + Duration::from_nanos(time.0));
        let is_over =
            || end.load(Ordering::Relaxed) || until.is_some_and(|at| Instant::now() >= at);
        let (mut counts, mut numbers) = (Counts::default(), Numbers::default());
        let mut was_there = true;
        loop {
            // Asked for first: what was published until the end is sent, too.
            let is_last = is_over() || !is_published(pid);
            let mut events = Vec::new();
            follower.read(|event| {
                if self.wanted.takes(event) {
                    events.push((event.symbol.to_owned(), object(event, age(event))));
                }
            })?;
            // What was overwritten came before these.
            numbers.missed = follower.missed();
            let number = |event| message(&self.subject, event, &mut numbers);
            let messages: Vec<_> = events.into_iter().map(number).collect();
            let all = messages.len() as u64;
            let unsent = broker.publish(messages);
            (counts.sent, counts.unsent) = (counts.sent + all - unsent, counts.unsent + unsent);
            let is_there = broker.is_there();
            match (was_there, is_there) {
                (true, false) => {
                    counts.away += 1;
                    self.output.say("the broker is away: what comes now is not sent");
                }
                (false, true) => self.output.say("the broker is back"),
                _ => {}
            }
            was_there = is_there;
            if is_last {
                return Ok(counts);
            }
            broker.wait(PAUSE);
        }
    }
}

/// The last number of every instrument.
#[derive(Debug, Default)]
struct Numbers {
    last: BTreeMap<String, u64>,
    /// Events of whatever instrument that were overwritten before they were read.
    missed: u64,
}

impl Numbers {
    fn next(&mut self, symbol: String) -> u64 {
        let last = self.last.entry(symbol).or_default();
        *last += 1;
        *last + self.missed
    }
}

type Named = (String, (&'static str, Value));

fn message(prefix: &str, (symbol, (kind, mut object)): Named, numbers: &mut Numbers) -> Message {
    let subject = subject(prefix, &symbol, kind);
    object["sequence"] = Value::from(numbers.next(symbol));
    Message { subject, text: object.to_string() }
}

/// Names of instruments that have a dot, a blank or a wildcard would be other subjects.
fn subject(prefix: &str, symbol: &str, kind: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_:/".contains(c);
    let word: String = symbol.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let word = if word.is_empty() { "_" } else { &word };
    format!("{prefix}.{word}.{kind}")
}

fn table(counts: &Counts, missed: u64) -> Table {
    let columns = ["sent", "not_sent", "overwritten", "broker_away"];
    let mut table = Table::new("feed_nats", "What was sent to the broker", &columns);
    let numbers = [counts.sent, counts.unsent, missed, counts.away];
    table.rows = vec![numbers.map(Cell::from).to_vec()];
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_in_the_sequence_is_what_was_lost() {
        let mut numbers = Numbers::default();
        let taken: Vec<_> = ["A", "B", "A"].map(|symbol| numbers.next(symbol.to_owned())).to_vec();
        assert_eq!(taken, [1, 1, 2]);
        numbers.missed = 5;
        assert_eq!(["A", "B"].map(|symbol| numbers.next(symbol.to_owned())), [8, 7]);
    }

    #[test]
    fn no_instrument_is_another_subject() {
        let of = |symbol| subject("quietcore.feed", symbol, "book");
        assert_eq!(of("BTC-USDT-SWAP"), "quietcore.feed.BTC-USDT-SWAP.book");
        assert_eq!(of("A.B *>"), "quietcore.feed.A_B___.book");
        assert_eq!(of(""), "quietcore.feed._.book");
    }
}
