//! Why there is no WebSocket, and what to do about it.

use std::time::Duration;

use thiserror::Error;

use super::HEAD_LIMIT;

/// Why a server's answer to the upgrade is not taken. `said` is the start of the answer's body, as
/// far as it had come, on one line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UpgradeError {
    /// Not HTTP at all.
    #[error("the answer is not HTTP ({0}): check host and port, something else listens there")]
    NotHttp(httparse::Error),
    /// No end of the head in sight.
    #[error("the answer's head is longer than {HEAD_LIMIT} bytes or {} lines", super::HEADERS)]
    HeadTooLong,
    /// HTTP/1.0 knows no upgrade.
    #[error("the answer is HTTP/1.0: a proxy stands between, go past it")]
    OldHttp,
    /// 301, 302, 303, 307, 308.
    #[error(
        "redirected ({status}) to {location:?}: if that is the venue's, set it as the host; \
         if not, a captive portal or a proxy answers: log in to the network or go past it"
    )]
    Redirect {
        /// The status.
        status: u16,
        /// Where to; empty if it does not say.
        location: String,
    },
    /// 400.
    #[error(
        "the venue does not understand the request (400): check the streams' names{}",
        cited(said)
    )]
    BadRequest {
        /// The body's start.
        said: String,
    },
    /// 401.
    #[error(
        "the venue wants a login (401): this stream is not a public one, choose another{}",
        cited(said)
    )]
    Login {
        /// The body's start.
        said: String,
    },
    /// 403.
    #[error(
        "refused (403): the venue's firewall has had too much of this address (wait some minutes, \
         then ask less), or does not serve its country{}",
        cited(said)
    )]
    Forbidden {
        /// The body's start.
        said: String,
    },
    /// 404.
    #[error(
        "nothing is at this path (404): Binance USD-M has split its streams, depth and bookTicker \
         are below /public, trades, marks and klines below /market{}",
        cited(said)
    )]
    NotFound {
        /// The body's start.
        said: String,
    },
    /// 418.
    #[error(
        "this address is banned (418){}: every try until then makes it longer (Binance: 2 minutes \
         to 3 days){}",
        for_long(retry_after),
        cited(said)
    )]
    Banned {
        /// For how long, if said in seconds.
        retry_after: Option<Duration>,
        /// The body's start.
        said: String,
    },
    /// 429.
    #[error(
        "too many connections or requests (429){}: wait, then ask less; whoever goes on is banned{}",
        for_long(retry_after),
        cited(said)
    )]
    TooMany {
        /// For how long, if said in seconds.
        retry_after: Option<Duration>,
        /// The body's start.
        said: String,
    },
    /// 451.
    #[error(
        "not served at this location (451): the venue's terms exclude it; use a venue or a host \
         that serves it{}",
        cited(said)
    )]
    Restricted {
        /// The body's start.
        said: String,
    },
    /// 5xx.
    #[error(
        "the venue is in trouble ({status}){}: try again later{}",
        for_long(retry_after),
        cited(said)
    )]
    Server {
        /// The status.
        status: u16,
        /// For how long, if said in seconds.
        retry_after: Option<Duration>,
        /// The body's start.
        said: String,
    },
    /// A page for people, where a WebSocket was asked for.
    #[error(
        "a web page came instead ({status}): a captive portal or a proxy answers (log in to the \
         network or go past it), or the host is the venue's web site"
    )]
    WebPage {
        /// The status.
        status: u16,
    },
    /// Any other status.
    #[error(
        "the answer's status is {status}, not 101: perhaps not a WebSocket's address{}",
        cited(said)
    )]
    Status {
        /// The status.
        status: u16,
        /// The body's start.
        said: String,
    },
    /// 101, but without a header that belongs to it.
    #[error("the answer lacks `{0}`: a proxy that knows no WebSocket stands between, go past it")]
    Lacks(&'static str),
    /// 101 for somebody else's key.
    #[error(
        "the answer's Sec-WebSocket-Accept is not for our key: a cache or a proxy answers, \
         go past it"
    )]
    Accept,
    /// An extension or a subprotocol that we did not ask for (RFC 6455, 4.1).
    #[error("the answer's `{name}` has what we did not ask for: {value:?}")]
    Unasked {
        /// The header's name.
        name: &'static str,
        /// Its value.
        value: String,
    },
}

fn for_long(time: &Option<Duration>) -> String {
    time.map_or_else(String::new, |time| format!(" for {} s", time.as_secs()))
}

fn cited(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(". It says: {said}") }
}

impl UpgradeError {
    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Banned { retry_after, .. }
            | Self::TooMany { retry_after, .. }
            | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same request will be refused until somebody changes it or the place it comes from.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Redirect { .. }
                | Self::BadRequest { .. }
                | Self::Login { .. }
                | Self::NotFound { .. }
                | Self::Restricted { .. }
        )
    }
}
