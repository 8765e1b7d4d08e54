//! OKX's `books`: a snapshot when a client subscribes, then what changes.

use std::collections::HashSet;

use serde_json::json;

use super::Socket;
use crate::server::hub::lock;
use crate::server::okx::{self, OkxCommand};
use crate::server::source::{Event, Source};
use crate::server::stream::{Channel, Stream};

/// A message as a client that subscribed to an instrument gets it.
pub(super) fn wrapped(instrument: &str, text: &str) -> String {
    let argument = json!({ "channel": "books", "instId": instrument });
    format!("{{\"arg\":{argument},{}", text.strip_prefix('{').unwrap_or(text))
}

fn stream(source: &Source, instrument: &str) -> Option<Stream> {
    let symbol = source.symbol(&okx::symbol(instrument))?;
    Some(Stream { symbol, channel: Channel::Books })
}

impl Socket<'_> {
    pub(super) fn books_command(&mut self, text: &str) {
        match okx::read(text) {
            Err(answer) => self.say(answer),
            Ok(OkxCommand::Ping) => self.say("pong".into()),
            Ok(OkxCommand::Subscribe(instruments)) => {
                for instrument in instruments {
                    self.subscribe_books(instrument);
                }
            }
            Ok(OkxCommand::Unsubscribe(instruments)) => {
                for instrument in instruments {
                    self.names.retain(|name| *name != instrument);
                    self.say(okx::done("unsubscribe", &instrument));
                }
                self.listen_to_books(&lock(&self.shared.source));
            }
        }
    }

    fn subscribe_books(&mut self, instrument: String) {
        let shared = self.shared;
        // While the market is held: nothing may happen between the snapshot and the first change.
        let source = lock(&shared.source);
        let books = stream(&source, &instrument)
            .and_then(|stream| Some((stream, source.books(stream.symbol)?)));
        let Some((stream, (at, text))) = books else {
            return self.say(okx::not_there("books", &instrument));
        };
        if !self.names.contains(&instrument) {
            self.names.push(instrument.clone());
        }
        self.known_until.insert(stream, at);
        self.listen_to_books(&source);
        drop(source);
        self.say(okx::done("subscribe", &instrument));
        let snapshot = self.written(&Event { at, stream, text }, &instrument);
        self.say(snapshot);
    }

    fn listen_to_books(&mut self, source: &Source) {
        self.listened.clear();
        for name in &self.names {
            if let Some(stream) = stream(source, name) {
                self.listened.entry(stream).or_default().push(name.clone());
            }
        }
        let streams: HashSet<Stream> = self.listened.keys().copied().collect();
        self.shared.hub.listen(&self.member, streams);
    }
}
