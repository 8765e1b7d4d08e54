//! TLS: the handshake is rustls's, the record path our own.
//!
//! A feed's bytes are decrypted where they were received and handed on record by record, without a
//! copy and without an allocation, so that every record's time can be taken. rustls checks
//! certificates, agrees on keys and derives new ones; [`Records`] opens and seals records with them
//! (RFC 8446, RFC 5246). The same through rustls's own buffers is [`RecordPath::Rustls`]: what the
//! tests compare with.
//!
//! Nothing here reads the socket after the handshake. Whoever does puts bytes in and takes
//! plaintext out:
//!
//! ```no_run
//! # use std::io::{Read, Write};
//! # fn decode(plain: &[u8]) {}
//! # use quietcore_feed::tls::{RecordPath, Roots, Tls, TlsError, client_config};
//! # fn feed(mut socket: std::net::TcpStream) -> Result<(), Box<dyn std::error::Error>> {
//! let config = client_config(Roots::System)?;
//! let mut tls = Tls::connect(&mut socket, "example.org".try_into()?, config, RecordPath::Own)?;
//! while !tls.is_closed() {
//!     let count = socket.read(tls.space())?;
//!     tls.filled(count);
//!     while let Some(plain) = tls.next()? {
//!         decode(plain);
//!     }
//!     socket.write_all(tls.outgoing())?;
//!     tls.outgoing().clear();
//! }
//! # Ok(())
//! # }
//! ```

mod alert;
mod buffer;
mod buffered;
mod cipher;
mod error;
mod handshake;
mod messages;
mod own;
mod records;
mod roots;

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion, SupportedCipherSuite};

use buffered::RustlsPath;
use own::OwnPath;

pub use alert::Alert;
pub use error::{RecordError, TlsError};
pub use records::{Records, Step};
pub use roots::{Roots, certificates, client_config};

/// Who opens and seals records after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPath {
    /// [`Records`]: in place, no allocation per record.
    Own,
    /// rustls, through its own buffers.
    Rustls,
}

/// A version of the protocol that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246, with AEAD ciphers only.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// What client and server agreed on, for a run's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// `TLS 1.3` or `TLS 1.2`.
    pub version: &'static str,
    /// The cipher suite's name in IANA's registry, `TLS_AES_128_GCM_SHA256`.
    pub cipher_suite: String,
}

impl Negotiated {
    fn new(version: ProtocolVersion, suite: SupportedCipherSuite) -> Self {
        let version = if version == ProtocolVersion::TLSv1_3 { "TLS 1.3" } else { "TLS 1.2" };
        // rustls writes `TLS13_` where the registry has `TLS_`.
        let name = suite.suite().as_str().unwrap_or("unknown");
        Self { version, cipher_suite: name.replacen("TLS13_", "TLS_", 1) }
    }
}

/// A TLS connection after its handshake; the bytes come and go by the caller's hand.
#[derive(Debug)]
pub struct Tls {
    path: Path,
}

#[derive(Debug)]
enum Path {
    Own(Box<OwnPath>),
    Rustls(Box<RustlsPath>),
}

impl Tls {
    /// Shakes hands over a blocking socket; its time limits are the handshake's.
    ///
    /// `config` comes from [`client_config`]; `name` is whom the certificate must be for.
    ///
    /// # Errors
    /// Every [`TlsError`] but those of root certificates; the connection is then of no use.
    pub fn connect(
        socket: &mut (impl Read + Write),
        name: ServerName<'static>,
        config: Arc<ClientConfig>,
        path: RecordPath,
    ) -> Result<Self, TlsError> {
        let path = match path {
            RecordPath::Own => Path::Own(Box::new(OwnPath::connect(socket, name, config)?)),
            RecordPath::Rustls => {
                Path::Rustls(Box::new(RustlsPath::connect(socket, name, config)?))
            }
        };
        Ok(Self { path })
    }

    /// What the handshake agreed on.
    pub fn negotiated(&self) -> Negotiated {
        match &self.path {
            Path::Own(own) => own.negotiated(),
            Path::Rustls(rustls) => rustls.negotiated().clone(),
        }
    }

    /// Where the socket's next bytes go: 64 KiB at least, and no allocation while whole records are
    /// taken before more is read.
    pub fn space(&mut self) -> &mut [u8] {
        match &mut self.path {
            Path::Own(own) => own.records().space(),
            Path::Rustls(rustls) => rustls.space(),
        }
    }

    /// `count` bytes were read into [`Self::space`].
    pub fn filled(&mut self, count: usize) {
        match &mut self.path {
            Path::Own(own) => own.records().filled(count),
            Path::Rustls(rustls) => rustls.filled(count),
        }
    }

    /// The next record's plaintext, never empty; `None`: more bytes are needed, or the peer has
    /// closed. Tickets, key updates and alerts are dealt with on the way: there may then be bytes
    /// in [`Self::outgoing`].
    ///
    /// # Errors
    /// [`TlsError::Record`], from then on always the same. [`Self::outgoing`] has the alert for the
    /// peer.
    #[expect(clippy::should_implement_trait, reason = "what it lends ends with the next call")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<&[u8]>, TlsError> {
        match &mut self.path {
            Path::Own(own) => own.next(),
            Path::Rustls(rustls) => rustls.next(),
        }
    }

    /// Seals `plain` into [`Self::outgoing`]. Keys are changed before they have sealed as much as
    /// their cipher allows (RFC 8446 section 5.5).
    ///
    /// # Errors
    /// After the end of the connection, and in TLS 1.2 when its keys are used up.
    pub fn send(&mut self, plain: &[u8]) -> Result<(), TlsError> {
        match &mut self.path {
            Path::Own(own) => own.send(plain),
            Path::Rustls(rustls) => rustls.send(plain),
        }
    }

    /// Says `close_notify`: nothing more will be sent.
    pub fn close(&mut self) {
        match &mut self.path {
            Path::Own(own) => own.records().close(),
            Path::Rustls(rustls) => rustls.close(),
        }
    }

    /// Bytes for the socket: data that was sent, answers to key updates, alerts. The caller takes
    /// them out.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        match &mut self.path {
            Path::Own(own) => own.records().outgoing(),
            Path::Rustls(rustls) => rustls.outgoing(),
        }
    }

    /// Whether the peer has said `close_notify`. A connection that ends without it was cut off.
    pub fn is_closed(&self) -> bool {
        match &self.path {
            Path::Own(own) => own.is_closed(),
            Path::Rustls(rustls) => rustls.is_closed(),
        }
    }
}
