//! A NATS broker to publish to. It takes what comes while it is there; what came while it was away is
//! of no use any more.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;
use tokio::runtime::{self, Runtime};
use tokio::time::{sleep, timeout};

/// How long a broker may take to be reached, and at the end to take what it was sent last.
const PATIENCE: Duration = Duration::from_secs(5);
/// A broker that takes nothing for so long is away.
const STALLED: Duration = Duration::from_millis(250);
/// So many may be under way: they are all that comes late after a broker was away.
const UNDER_WAY: usize = 128;
/// How often it has to show that it is there; it is away after three times.
const PING_EVERY: Duration = Duration::from_secs(2);

/// Where the broker is, and how it knows us.
pub struct Settings {
    /// `nats://host:4222` or `tls://host:4222`, with `user:password@` or `token@` in front of the host;
    /// those of the first server that has any are for all.
    pub servers: Vec<String>,
    /// A file of NATS credentials (`nsc generate creds`).
    pub credentials: Option<PathBuf>,
    /// Certificates in PEM that are trusted as well as the system's.
    pub roots: Option<PathBuf>,
}

/// Without passwords.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("servers", &self.hosts()).finish_non_exhaustive()
    }
}

impl Settings {
    fn hosts(&self) -> String {
        self.servers.iter().map(|server| host(server)).collect::<Vec<_>>().join(", ")
    }
}

/// An address without the password that may be in it.
fn host(server: &str) -> &str {
    server.rsplit_once('@').map_or(server, |(_, host)| host)
}

/// Why there is no broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// An address that is none.
    #[error("{server}: an address looks like nats://127.0.0.1:4222")]
    Address {
        /// As it was given, without what is in front of the host.
        server: String,
        /// Why.
        source: std::io::Error,
    },
    /// The credentials cannot be read, or are none.
    #[error("{}: no NATS credentials", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// None of the servers took us.
    #[error("no NATS broker at {servers}")]
    Connect {
        /// All that were tried.
        servers: String,
        /// Why.
        source: async_nats::ConnectError,
    },
    /// Somebody took the connection and said nothing.
    #[error("no NATS broker at {servers}: it says nothing for {PATIENCE:?}")]
    Silent {
        /// All that were tried.
        servers: String,
    },
    /// No threads or sockets are to be had.
    #[error("starting the client")]
    Client(#[from] std::io::Error),
}

/// One thing to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its subject.
    pub subject: String,
    /// What it says.
    pub text: String,
}

/// A connection, which comes back by itself. All of it happens within the calls: it has no thread.
#[derive(Debug)]
pub struct Broker {
    runtime: Runtime,
    client: Client,
}

impl Broker {
    /// Connects.
    ///
    /// # Errors
    /// [`BrokerError`] where that is not possible now.
    pub fn connect(settings: &Settings) -> Result<Self, BrokerError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(connect(settings))?;
        Ok(Self { runtime, client })
    }

    /// Whether it is there, as far as is known.
    pub fn is_there(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Publishes in this order, and says how many it could not because the broker was away or too
    /// slow.
    pub fn publish(&self, messages: Vec<Message>) -> u64 {
        let mut left = messages.len() as u64;
        self.runtime.block_on(async {
            for message in messages {
                if !self.is_there() {
                    return;
                }
                let sent = self.client.publish(message.subject, message.text.into());
                if !matches!(timeout(STALLED, sent).await, Ok(Ok(()))) {
                    return;
                }
                left -= 1;
            }
        });
        left
    }

    /// Waits, and does what the connection needs meanwhile.
    pub fn wait(&self, time: Duration) {
        self.runtime.block_on(async { sleep(time).await });
    }

    /// Ends when everything is on its way; `false` where the broker is away.
    pub fn close(self) -> bool {
        if !self.is_there() {
            return false;
        }
        let flushed = self.runtime.block_on(async { timeout(PATIENCE, self.client.flush()).await });
        self.is_there() && matches!(flushed, Ok(Ok(())))
    }
}

async fn connect(settings: &Settings) -> Result<Client, BrokerError> {
    let address = |server: &String| {
        server
            .parse::<ServerAddr>()
            .map_err(|source| BrokerError::Address { server: host(server).to_owned(), source })
    };
    let servers: Vec<_> = settings.servers.iter().map(address).collect::<Result<_, _>>()?;
    let mut options = ConnectOptions::new()
        .name("quietcore-feed")
        .connection_timeout(PATIENCE)
        .client_capacity(UNDER_WAY)
        .ping_interval(PING_EVERY);
    // The client does not take them from the address itself. A name alone is a token.
    let named = servers.iter().find_map(|server| Some((server.username()?, server.password())));
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    options = match named {
        Some((user, Some(password))) => options.user_and_password(plain(user), plain(password)),
        Some((token, None)) => options.token(plain(token)),
        None => options,
    };
    if let Some(path) = &settings.credentials {
        let read = options.credentials_file(path).await;
        options = read.map_err(|source| BrokerError::Credentials { path: path.clone(), source })?;
    }
    if let Some(roots) = &settings.roots {
        options = options.add_root_certificates(roots.clone());
    }
    match timeout(PATIENCE, options.connect(servers)).await {
        Ok(connected) => {
            connected.map_err(|source| BrokerError::Connect { servers: settings.hosts(), source })
        }
        Err(_) => Err(BrokerError::Silent { servers: settings.hosts() }),
    }
}
