//! What an engine is to do.

use std::path::PathBuf;
use std::time::Duration;

use quietcore_measure::CpuSet;

use crate::tls::{RecordPath, Roots};
use crate::venues::{Venue, VenueError, Wanted};

/// How the hot thread waits for bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It sleeps in epoll_wait until there are some. Costs no CPU; waking takes microseconds, and
    /// far more from a deep idle state.
    #[default]
    Block,
    /// It asks epoll without waiting, again and again: one system call for all sockets.
    PollSpin,
    /// It reads every socket without waiting, again and again: one system call fewer per message,
    /// one per socket and round.
    RecvSpin,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Block, Self::PollSpin, Self::RecvSpin];

    /// As commands name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::PollSpin => "poll-spin",
            Self::RecvSpin => "recv-spin",
        }
    }

    /// Whether the thread never sleeps.
    pub fn spins(self) -> bool {
        self != Self::Block
    }
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Address {
    /// As an HTTP request names it: the port is left out where it is TLS's own.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port {
            443 => host,
            port => format!("{host}:{port}"),
        }
    }
}

/// Why a URL is not one of a venue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is no venue's URL: {why}; it looks like wss://127.0.0.1:9443")]
pub struct UrlError {
    url: String,
    why: &'static str,
}

/// Host and port of a URL `wss://HOST[:PORT]`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_url(url: &str) -> Result<Address, UrlError> {
    let wrong = |why| UrlError { url: url.to_owned(), why };
    if url.starts_with("ws://") || url.starts_with("http://") {
        return Err(wrong("only TLS is spoken here"));
    }
    let rest = url.strip_prefix("wss://").or_else(|| url.strip_prefix("https://")).unwrap_or(url);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#', '@']) || rest.contains(char::is_whitespace) {
        return Err(wrong("the venue's own paths are appended, so it may have none"));
    }
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("a bracket is open"))?;
            (host, rest.strip_prefix(':').or(rest.is_empty().then_some("443")))
        }
        None => match rest.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => return Err(wrong("IPv6 needs brackets")),
            Some((host, port)) => (host, Some(port)),
            None => (rest, Some("443")),
        },
    };
    let port = port.and_then(|port| port.parse().ok()).filter(|&port: &u16| port > 0);
    match port {
        _ if host.is_empty() => Err(wrong("it has no host")),
        Some(port) => Ok(Address { host: host.to_owned(), port }),
        None => Err(wrong("its port is none")),
    }
}

/// What an engine is to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// The exchange.
    pub venue: &'static dyn Venue,
    /// Its instruments, as it names them.
    pub symbols: Vec<String>,
    /// What of them.
    pub wanted: Wanted,
    /// Another place than the venue's own for streams and requests: a replay venue.
    pub at: Option<Address>,
    /// Who is believed to be the venue.
    pub roots: Roots,
    /// Who decrypts.
    pub record_path: RecordPath,
    /// How to wait.
    pub mode: Mode,
    /// Spin in the kernel for so long first (`SO_BUSY_POLL`).
    pub busy_poll: Option<Duration>,
    /// Where the hot thread runs; empty: anywhere.
    pub cpus: CpuSet,
    /// Its priority under SCHED_FIFO.
    pub fifo: Option<u8>,
    /// After how long a connection is replaced by a new one, before the venue ends it.
    pub renew_after: Option<Duration>,
    /// How long a connection may be silent before it counts as dead.
    pub silence: Duration,
    /// Room for so many messages' times between the hot thread and whoever drains them, 32 bytes
    /// each: what does not fit is missed and counted; what is large pushes books out of the caches.
    pub ring: usize,
    /// Where raw messages are written as they come.
    pub capture: Option<PathBuf>,
    /// Publish every message's span in shared memory, for `quietcore explain --spans`.
    pub publish: bool,
}

impl Config {
    /// The usual room for messages' times: 128 KB.
    pub const RING: usize = 1 << 12;

    /// With what is usual, for these instruments.
    pub fn new(venue: &'static dyn Venue, symbols: Vec<String>) -> Self {
        let renew_after = venue.longest_connection().map(|longest| longest - longest / 144);
        Self {
            venue,
            symbols,
            wanted: Wanted { quotes: true, trades: true, ..Wanted::default() },
            at: None,
            roots: Roots::System,
            record_path: RecordPath::Own,
            mode: Mode::Block,
            busy_poll: None,
            cpus: CpuSet::default(),
            fifo: None,
            renew_after,
            silence: Duration::from_secs(60),
            ring: Self::RING,
            capture: None,
            publish: true,
        }
    }

    /// Where streams are.
    pub fn stream_address(&self) -> Address {
        self.address(self.venue.stream_host())
    }

    /// Where requests go.
    pub fn rest_address(&self) -> Address {
        self.address(self.venue.rest_host())
    }

    fn address(&self, own: crate::venues::Endpoint) -> Address {
        let own = || Address { host: own.host.to_owned(), port: own.port };
        self.at.clone().unwrap_or_else(own)
    }
}

/// Why an engine cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The venue cannot be asked so.
    #[error(transparent)]
    Venue(#[from] VenueError),
    /// TLS cannot begin.
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
    /// The same instrument twice.
    #[error("{0:?} is named twice")]
    Twice(String),
    /// None.
    #[error("no instrument is named")]
    None,
    /// The system refuses something.
    #[error("{what}: {source}")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let address = |host: &str, port| Ok(Address { host: host.to_owned(), port });
        assert_eq!(parse_url("wss://127.0.0.1:9443"), address("127.0.0.1", 9443));
        assert_eq!(parse_url("wss://fstream.binance.com/"), address("fstream.binance.com", 443));
        assert_eq!(parse_url("localhost:1"), address("localhost", 1));
        assert_eq!(parse_url("wss://[::1]:8443"), address("::1", 8443));
        assert_eq!(parse_url("wss://[::1]"), address("::1", 443));
        let wrong = [
            "",
            "wss://",
            "ws://a:1",
            "a:0",
            "a:65536",
            "a:b",
            "::1:9",
            "wss://a/ws",
            "[::1",
            "[::1]x",
        ];
        for url in wrong {
            assert!(parse_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_port_is_named_where_it_is_not_tls_own() {
        let authority = |url| parse_url(url).unwrap().authority();
        assert_eq!(authority("wss://a.example"), "a.example");
        assert_eq!(authority("wss://[::1]:8443"), "[::1]:8443");
    }
}
