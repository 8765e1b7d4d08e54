//! What goes wrong, and when: a script of faults.
//!
//! One fault a line; `#` starts a comment, `;` may stand for a line's end.
//!
//! ```text
//! after 500 events gap 3 on btcusdt@depth   # the 3 events after the 500th are left out
//! every 1000 events duplicate               # again and again, on every connection
//! at 2s close 1006                          # 2 s after the market's start, every connection
//! rest 429 retry-after 1s 2 times
//! snapshot stale 1 times
//! ```
//!
//! `after N events` strikes once: the first connection to get so many. `every N events` and
//! `at TIME` strike every connection. `on` names a symbol, `@` and a channel, or both; then only
//! events of those streams are counted and meddled with. `@depth` means depth at any speed.

mod inject;
mod parse;

use std::time::Duration;

pub(super) use inject::{Armed, Injector, Strike};
pub use parse::ScriptError;

use super::certificate::Flaw;
use super::source::Age;
use super::stream::Channel;

/// What goes wrong with a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// So many events are left out.
    Gap(u64),
    /// So many events come twice.
    Duplicate(u64),
    /// One event comes after so many that it should precede.
    Reorder(u64),
    /// So many depth messages offer to sell at 1, which crosses the book.
    Crossed(u64),
    /// So many of OKX's messages have a wrong checksum.
    WrongChecksum(u64),
    /// The connection ends without a close frame: what clients call 1006.
    Drop,
    /// A close frame with this code and reason. 1006, which no frame may have, is [`Fault::Drop`].
    Close(u16, String),
    /// The venue sends no more (a TCP FIN), but still listens.
    HalfClose,
    /// So many pings at once.
    PingFlood(u64),
    /// Bytes come at so many a second.
    Slow(u64),
    /// Nothing comes for so long, then all of it.
    Silence(Duration),
    /// A message that is no JSON.
    Garbage,
    /// A text message that is no UTF-8.
    BadText,
    /// A message of so many bytes.
    Oversize(usize),
    /// So many events come in three fragments, a ping between them.
    Fragment(u64),
    /// A frame with a mask, which a server must not send.
    Masked,
    /// New traffic keys (TLS 1.3 only).
    KeyUpdate,
    /// A TLS record with a wrong bit.
    Corrupt,
}

/// When it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So long after the market's start, on every connection that is open then.
    At(Duration),
    /// Once, on the first connection that got so many matching events.
    After(u64),
    /// On every connection, every so many matching events.
    Every(u64),
}

/// Which streams it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The symbol, lower case; every one if there is none.
    pub symbol: Option<String>,
    /// What follows the `@`; every channel if there is nothing.
    pub channel: Option<String>,
}

impl Pattern {
    /// Whether it is about the stream of that name.
    pub fn matches(&self, symbol: &str, channel: Channel) -> bool {
        let suffix = channel.suffix();
        let is_symbol = self.symbol.as_ref().is_none_or(|it| it.eq_ignore_ascii_case(symbol));
        let is_channel = self.channel.as_ref().is_none_or(|it| {
            it == suffix
                || suffix.split('@').next() == Some(it)
                || Channel::parse(it) == Some(channel)
        });
        is_symbol && is_channel
    }
}

/// A fault of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// When.
    pub when: When,
    /// What.
    pub fault: Fault,
    /// On which streams.
    pub pattern: Pattern,
}

/// What an HTTP request is answered with instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An HTTP status and, with it, the seconds of a `Retry-After`.
    Refuse(u16, Option<u64>),
    /// A book of another time.
    Book(Age),
}

/// Which requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// REST requests.
    Rest,
    /// Requests for a depth snapshot.
    Snapshot,
    /// WebSocket upgrades.
    Upgrade,
}

/// A fault of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Of which requests.
    pub request: Request,
    /// The answer.
    pub answer: Answer,
    /// So many requests are answered as they should be before.
    pub after: u64,
    /// How many then are not.
    pub times: u64,
}

/// A script. Made by [`str::parse`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Faults of connections.
    pub rules: Vec<Rule>,
    /// Faults of requests.
    pub refusals: Vec<Refusal>,
    /// What is wrong with the certificate.
    pub certificate: Option<Flaw>,
}
