//! What a venue is asked for.

use std::time::Duration;

/// Where a venue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The host's name.
    pub host: &'static str,
    /// The TCP port.
    pub port: u16,
}

/// How often a venue sends changes of a book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// As they happen. Binance takes it and does not document it.
    Ms0,
    /// Every 100 ms.
    #[default]
    Ms100,
    /// Every 250 ms.
    Ms250,
    /// Every 500 ms.
    Ms500,
}

/// What is wanted of every instrument besides its book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// How often the book's changes come.
    pub speed: Speed,
    /// The best bid and ask.
    pub quotes: bool,
    /// Trades.
    pub trades: bool,
    /// Mark price and funding.
    pub mark: bool,
}

/// One WebSocket connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The path and query of the URL.
    pub path: String,
    /// What it brings, in the venue's words: one entry per stream.
    pub streams: Vec<String>,
    /// Text messages to send once it is open, in this order. None: the path says it all.
    pub subscribe: Vec<String>,
    /// The least time between two of them.
    pub pace: Duration,
}

/// A REST request for a whole book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The path and query of the URL, for a GET.
    pub path: String,
    /// What it counts towards `weight_per_minute`.
    pub weight: u32,
    /// What an IP address may spend in a minute; the venue answers 429 beyond that, then 418.
    pub weight_per_minute: u32,
}

/// A REST request for a list of instruments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstrumentsRequest {
    /// The path and query of the URL, for a GET.
    pub path: String,
}

/// What to say so that a connection stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// A text message.
    pub text: &'static str,
    /// How often.
    pub every: Duration,
}

/// Why a venue cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VenueError {
    /// No venue has this name.
    #[error("there is no venue {name:?}; there are {all}")]
    NoVenue {
        /// What was asked for.
        name: String,
        /// The names there are.
        all: String,
    },
    /// This cannot be an instrument's name.
    #[error("{symbol:?} cannot be the name of an instrument of {venue}: {why}")]
    Symbol {
        /// What was asked for.
        symbol: String,
        /// The venue's title.
        venue: &'static str,
        /// Why not, and how names look.
        why: &'static str,
    },
    /// The venue has no such instrument.
    #[error("{venue} has no instrument {symbol:?}{}", near.as_ref().map(|near| format!("; did you mean {near:?}?")).unwrap_or_default())]
    NoInstrument {
        /// What was asked for.
        symbol: String,
        /// The venue's title.
        venue: &'static str,
        /// The most similar name that there is.
        near: Option<String>,
    },
    /// The instrument exists and is not traded now.
    #[error("{symbol:?} is not traded on {venue} now: its status is {status:?}")]
    NotTrading {
        /// The instrument.
        symbol: String,
        /// The venue's title.
        venue: &'static str,
        /// The venue's word.
        status: String,
    },
    /// Prices or quantities are finer than 1e-8.
    #[error("{symbol:?} has steps finer than 1e-8, which the book cannot hold")]
    TooFine {
        /// The instrument.
        symbol: String,
    },
    /// The venue does not offer this, or not to everybody.
    #[error("{venue} has no {what}")]
    NotOffered {
        /// The venue's title.
        venue: &'static str,
        /// What was asked for.
        what: &'static str,
    },
    /// The venue's answer is not what was asked for.
    #[error("{venue} did not answer with a list of instruments: {why}")]
    Answer {
        /// The venue's title.
        venue: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// A name in a URL: what is not a letter, a digit or `-._~` is escaped (RFC 3986). Exchanges list
/// instruments with names in Chinese.
pub(super) fn escaped(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().fold(String::with_capacity(name.len()), |mut text, byte| {
        match is_plain(byte) {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_urls_are_escaped() {
        assert_eq!(escaped("btcusdt_260925"), "btcusdt_260925");
        assert_eq!(escaped("币usdt"), "%E5%B8%81usdt");
        assert_eq!(escaped("a/b&c=d"), "a%2Fb%26c%3Dd");
    }
}
