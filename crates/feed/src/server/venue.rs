//! The venue as a whole: its listener, its threads, its end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use super::certificate::{self, CertificateError};
use super::clock::{self, Begin, Pace};
use super::fault::{Armed, Script};
use super::hub::{Hub, lock};
use super::rest::Weights;
use super::session;
use super::source::Source;
use super::wake::Wake;
use super::wire::Cutting;

/// How a venue behaves. The default is the exchange's own behaviour on a free port of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How fast the market goes.
    pub pace: Pace,
    /// When it starts.
    pub begin: Begin,
    /// How bytes are cut.
    pub cutting: Cutting,
    /// Up to so many waiting messages go into one record and one write; 1: each has its own.
    pub coalesce: usize,
    /// Whether messages end in `"sent":<ns since 1970>`, the moment they were given to TLS.
    pub has_send_time: bool,
    /// What goes wrong.
    pub faults: Script,
    /// Names that the certificate is for, besides this machine's and the exchanges'.
    pub names: Vec<String>,
    /// Where to write `roots.pem`, the issuer that clients have to trust.
    pub certificates: Option<PathBuf>,
    /// Time between two pings.
    pub ping_every: Duration,
    /// A client that answers no ping for so long is closed.
    pub pong_within: Duration,
    /// A connection's longest life.
    pub longest: Duration,
    /// Events that may wait for a client; with one more it is closed.
    pub queue: usize,
    /// Messages a client may send in a second.
    pub incoming_per_second: usize,
    /// REST weight a minute.
    pub weight_per_minute: u32,
    /// Whether `/ws` and `/stream` are served beside `/public` and `/market`.
    pub has_legacy_routes: bool,
    /// For whatever is random about how bytes are cut.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            pace: Pace::Rate(1.0),
            begin: Begin::AtOnce,
            cutting: Cutting::default(),
            coalesce: 1,
            has_send_time: false,
            faults: Script::default(),
            names: Vec::new(),
            certificates: None,
            ping_every: Duration::from_secs(180),
            pong_within: Duration::from_secs(600),
            longest: Duration::from_secs(24 * 3_600),
            queue: 20_000,
            incoming_per_second: 10,
            weight_per_minute: 2_400,
            has_legacy_routes: true,
            seed: 1,
        }
    }
}

/// Why a venue does not start.
#[derive(Debug, thiserror::Error)]
pub enum VenueError {
    /// There is no listening there.
    #[error("cannot listen at {address}: {source}; another --listen address may be free")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The issuer could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system gives no thread or no event counter.
    #[error("the system refuses what a venue needs: {0}")]
    System(#[from] io::Error),
    /// A rate that is no rate.
    #[error("a market's rate is more than 0, not {0}")]
    Rate(f64),
}

/// What a venue has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// TCP connections taken.
    pub connections: u64,
    /// TLS handshakes that failed.
    pub failed_handshakes: u64,
    /// Connections that are open now.
    pub open: u64,
    /// REST requests answered.
    pub requests: u64,
    /// WebSocket upgrades.
    pub upgrades: u64,
    /// Events of the market that somebody listened to.
    pub events: u64,
    /// Messages sent, over all connections.
    pub messages: u64,
    /// Bytes written to sockets by connections that are closed.
    pub bytes: u64,
    /// Clients closed because they did not read.
    pub slow_readers: u64,
    /// Faults that struck.
    pub faults: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) failed_handshakes: AtomicU64,
    pub(super) open: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) upgrades: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) messages: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) slow_readers: AtomicU64,
}

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) tls: Arc<ServerConfig>,
    pub(super) source: Mutex<Source>,
    pub(super) symbols: Vec<String>,
    pub(super) hub: Hub,
    pub(super) armed: Arc<Armed>,
    pub(super) weights: Mutex<Weights>,
    pub(super) counters: Counters,
    /// The market's first moment.
    pub(super) started: OnceLock<Instant>,
    pub(super) is_stopping: AtomicBool,
    /// The market is over: nothing will come.
    pub(super) has_ended: AtomicBool,
}

impl Shared {
    /// Says that the market is over.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.hub.wake();
    }

    /// Time since the market's start; 0 before.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }
}

/// A client's thread and what wakes it.
type Client = (JoinHandle<()>, Arc<Wake>);

/// A replay venue.
#[derive(Clone, Copy, Debug)]
pub struct Venue;

/// A venue that runs, until [`stop`](Self::stop) or until it is dropped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    roots_pem: String,
    roots_path: Option<PathBuf>,
    shared: Arc<Shared>,
    wake: Arc<Wake>,
    clients: Arc<Mutex<Vec<Client>>>,
    clock: Option<JoinHandle<()>>,
    listener: Option<JoinHandle<()>>,
}

impl Venue {
    /// Starts a venue for a market.
    pub fn start(source: Source, config: Config) -> Result<Running, VenueError> {
        if let Pace::Rate(rate) = config.pace {
            if !(rate.is_finite() && rate > 0.0) {
                return Err(VenueError::Rate(rate));
            }
        }
        let identity = certificate::identity(&config.names, config.faults.certificate)?;
        let roots_path = match &config.certificates {
            Some(folder) => Some(write_roots(folder, &identity.roots_pem)?),
            None => None,
        };
        let address = config.listen;
        let listen = |source| VenueError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let shared = Arc::new(Shared {
            tls: identity.config,
            symbols: source.listings().into_iter().map(|listing| listing.symbol).collect(),
            source: Mutex::new(source),
            hub: Hub::default(),
            armed: Arc::new(Armed::new(&config.faults)),
            weights: Mutex::new(Weights::new(Instant::now(), config.weight_per_minute)),
            counters: Counters::default(),
            started: OnceLock::new(),
            is_stopping: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            config,
        });
        let mut running = Running {
            address,
            roots_pem: identity.roots_pem,
            roots_path,
            wake: Arc::new(Wake::new()?),
            clients: Arc::default(),
            clock: None,
            listener: None,
            shared,
        };
        running.spawn(listener)?;
        Ok(running)
    }
}

fn write_roots(folder: &std::path::Path, pem: &str) -> Result<PathBuf, VenueError> {
    let path = folder.join("roots.pem");
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, pem));
    match written {
        Ok(()) => Ok(path),
        Err(source) => Err(VenueError::Write { path, source }),
    }
}

impl Running {
    fn spawn(&mut self, listener: TcpListener) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let clock = Builder::new().name("venue-clock".into()).spawn(move || clock::run(&shared))?;
        self.clock = Some(clock);
        let (shared, wake) = (Arc::clone(&self.shared), Arc::clone(&self.wake));
        let clients = Arc::clone(&self.clients);
        let accept = move || accept(&shared, &listener, &wake, &clients);
        self.listener = Some(Builder::new().name("venue-listener".into()).spawn(accept)?);
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The issuer that clients have to trust, as PEM.
    pub fn roots_pem(&self) -> &str {
        &self.roots_pem
    }

    /// The file of it, if there is one.
    pub fn roots_path(&self) -> Option<&std::path::Path> {
        self.roots_path.as_deref()
    }

    /// What it has done so far.
    pub fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        Stats {
            connections: read(&counters.connections),
            failed_handshakes: read(&counters.failed_handshakes),
            open: read(&counters.open),
            requests: read(&counters.requests),
            upgrades: read(&counters.upgrades),
            events: read(&counters.events),
            messages: read(&counters.messages),
            bytes: read(&counters.bytes),
            slow_readers: read(&counters.slow_readers),
            faults: self.shared.armed.struck(),
        }
    }

    /// Whether the market is over, as a recording's is at its end.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended.load(Ordering::Acquire)
    }

    /// Ends it: clients get a close frame (1001), threads and sockets are gone when this returns.
    pub fn stop(mut self) -> Stats {
        self.end();
        self.stats()
    }

    fn end(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.wake.wake();
        self.shared.hub.wake();
        if let Some(clock) = self.clock.take() {
            clock.thread().unpark();
            // A thread that panicked has ended, too.
            let _ = clock.join();
        }
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let clients = std::mem::take(&mut *lock(&self.clients));
        for (_, wake) in &clients {
            wake.wake();
        }
        for (client, _) in clients {
            let _ = client.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes clients until the venue stops.
fn accept(shared: &Arc<Shared>, listener: &TcpListener, wake: &Wake, clients: &Mutex<Vec<Client>>) {
    /// After a failure that may pass, such as too many open files.
    const PAUSE: Duration = Duration::from_millis(20);
    let mut number = 0;
    while !shared.is_stopping.load(Ordering::Acquire) {
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if wake.wait_for_client(listener).is_err() {
                    return;
                }
                continue;
            }
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        number += 1;
        shared.counters.connections.fetch_add(1, Ordering::Relaxed);
        let Ok(wake) = Wake::new().map(Arc::new) else { continue };
        let (own, theirs) = (Arc::clone(shared), Arc::clone(&wake));
        let client = Builder::new().name(format!("venue-{number}")).spawn(move || {
            own.counters.open.fetch_add(1, Ordering::Relaxed);
            session::serve(&own, socket, theirs, number);
            own.counters.open.fetch_sub(1, Ordering::Relaxed);
        });
        let mut clients = lock(clients);
        clients.retain(|(client, _)| !client.is_finished());
        clients.extend(client.map(|client| (client, wake)));
    }
}
