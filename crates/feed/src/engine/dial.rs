//! Opens a connection: name, TCP, TLS, WebSocket, subscriptions. Waits, so never on the hot thread.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use quietcore_sys::net::Stream;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::config::Address;
use crate::tls::{RecordPath, Tls, TlsError};
use crate::venues::Connection;
use crate::websocket::upgrade::{self, UpgradeError};
use crate::websocket::{Opcode, encode};

/// How long each step may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The name leads nowhere.
    #[error("{host}: the name cannot be resolved: {source}; check DNS and the host's spelling")]
    Name {
        /// The name.
        host: String,
        /// The resolver's answer.
        source: io::Error,
    },
    /// Nobody takes the connection.
    #[error(
        "{address}: {source}; check the network path, a firewall, and that something listens there"
    )]
    Connect {
        /// Host and port.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// TLS.
    #[error("{address}: {source}")]
    Tls {
        /// Host and port.
        address: String,
        /// What went wrong.
        source: TlsError,
    },
    /// The upgrade to WebSocket.
    #[error("{address}{path}: {source}")]
    Upgrade {
        /// Host and port.
        address: String,
        /// The path that was asked for.
        path: String,
        /// What came back.
        source: UpgradeError,
    },
    /// It was open and broke before anything came.
    #[error("{address}: the connection broke while it was set up: {source}")]
    Broke {
        /// Host and port.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl DialError {
    /// How long the venue wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Upgrade { source, .. } => source.retry_after(),
            _ => None,
        }
    }
}

/// An open WebSocket.
#[derive(Debug)]
pub struct Dialled {
    /// The socket, from now on without waiting.
    pub socket: Stream,
    /// Its TLS.
    pub tls: Tls,
    /// What came behind the answer to the upgrade.
    pub rest: Vec<u8>,
}

/// What is the same for all connections of an engine.
#[derive(Clone, Debug)]
pub struct Dialler {
    /// Where.
    pub address: Address,
    /// Who is believed.
    pub tls: Arc<ClientConfig>,
    /// Who decrypts.
    pub record_path: RecordPath,
}

impl Dialler {
    /// Opens one connection and subscribes.
    ///
    /// # Errors
    /// What failed, and what to look at.
    pub fn dial(&self, to: &Connection) -> Result<Dialled, DialError> {
        let authority = self.address.authority();
        let broke = |source| DialError::Broke { address: authority.clone(), source };
        let in_tls = |source| DialError::Tls { address: authority.clone(), source };
        let mut socket = self.connect()?;
        let name = ServerName::try_from(self.address.host.clone()).map_err(|_| {
            let why = "it is neither a name nor an address";
            let source = io::Error::new(io::ErrorKind::InvalidInput, why);
            DialError::Name { host: self.address.host.clone(), source }
        })?;
        let config = Arc::clone(&self.tls);
        let mut tls = Tls::connect(&mut socket, name, config, self.record_path).map_err(in_tls)?;
        let key = upgrade::key(random());
        let request = upgrade::request(&authority, &to.path, &key);
        tls.send(&request).map_err(in_tls)?;
        flush(&mut tls, &mut socket).map_err(broke)?;
        let rest = answer(&mut tls, &mut socket, &key, |failed| match failed {
            Failed::Socket(source) => broke(source),
            Failed::Tls(source) => in_tls(source),
            Failed::Upgrade(source) => {
                let (address, path) = (authority.clone(), to.path.clone());
                DialError::Upgrade { address, path, source }
            }
        })?;
        for (number, message) in to.subscribe.iter().enumerate() {
            if number > 0 {
                thread::sleep(to.pace);
            }
            let mut frame = Vec::new();
            encode(Opcode::Text, message.as_bytes(), random(), &mut frame);
            tls.send(&frame).map_err(in_tls)?;
            flush(&mut tls, &mut socket).map_err(broke)?;
        }
        let socket = Stream::new(socket).map_err(broke)?;
        Ok(Dialled { socket, tls, rest })
    }

    fn connect(&self) -> Result<TcpStream, DialError> {
        let Address { host, port } = &self.address;
        let unresolved = |source| DialError::Name { host: host.clone(), source };
        let addresses = (host.as_str(), *port).to_socket_addrs().map_err(unresolved)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE).and_then(patient) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(DialError::Connect { address: self.address.authority(), source: last })
    }
}

fn patient(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// What can fail while the answer to an upgrade is awaited.
enum Failed {
    Socket(io::Error),
    Tls(TlsError),
    Upgrade(UpgradeError),
}

/// Reads until the answer to the upgrade is whole; returns what came behind it.
fn answer(
    tls: &mut Tls,
    socket: &mut TcpStream,
    key: &str,
    failed: impl Fn(Failed) -> DialError,
) -> Result<Vec<u8>, DialError> {
    let mut head = Vec::new();
    loop {
        while let Some(plain) = tls.next().map_err(|error| failed(Failed::Tls(error)))? {
            head.extend_from_slice(plain);
            let read = upgrade::response(&head, key);
            if let Some(taken) = read.map_err(|error| failed(Failed::Upgrade(error)))? {
                return Ok(head.split_off(taken));
            }
        }
        let read = match tls.is_closed() {
            true => Ok(0),
            false => socket.read(tls.space()),
        };
        match read {
            Ok(0) => {
                let why = "it was closed before the upgrade was answered";
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, why);
                return Err(failed(Failed::Socket(error)));
            }
            Ok(bytes) => tls.filled(bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(Failed::Socket(error))),
        }
    }
}

fn flush(tls: &mut Tls, socket: &mut TcpStream) -> io::Result<()> {
    let out = tls.outgoing();
    socket.write_all(out)?;
    out.clear();
    Ok(())
}

/// Bytes that nobody can foresee: what a mask and a key have to be (RFC 6455, 10.3).
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // It fails only where the kernel has no getrandom and no /dev/urandom: then nothing here works,
    // TLS first of all.
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes
}
