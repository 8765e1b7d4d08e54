//! A TLS 1.3 server in memory, at the other end of a stream.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};

/// Whom the certificate is for.
const NAME: &str = "localhost";

/// What both ends need: TLS 1.3 with AES-128-GCM.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Ours and rustls's.
    pub client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// The server's name.
pub fn name() -> anyhow::Result<ServerName<'static>> {
    Ok(ServerName::try_from(NAME)?)
}

impl Ends {
    /// With a fresh certificate.
    pub fn new() -> anyhow::Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
        let certificate: CertificateDer<'static> = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut provider = default_provider();
        provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
        let provider = Arc::new(provider);
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key))?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Our record path needs the keys.
        client.enable_secret_extraction = true;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    /// A new server.
    pub fn pipe(&self) -> anyhow::Result<Pipe> {
        let mut server = ServerConnection::new(Arc::clone(&self.server))?;
        server.set_buffer_limit(None);
        Ok(Pipe { server, sealed: Vec::new(), at: 0, ends: Vec::new(), piece: 0 })
    }
}

/// The client's stream. A read gets one piece at most: what was sealed at once, as one packet brings
/// one message.
#[derive(Debug)]
pub struct Pipe {
    server: ServerConnection,
    sealed: Vec<u8>,
    at: usize,
    /// Where pieces end in `sealed`.
    ends: Vec<usize>,
    /// The piece that is read.
    piece: usize,
}

impl Pipe {
    /// The server sends these bytes, in one record where they fit.
    pub fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        self.rewind();
        self.server.writer().write_all(plain)?;
        self.take_sealed()
    }

    fn rewind(&mut self) {
        if self.at == self.sealed.len() {
            self.sealed.clear();
            self.ends.clear();
            (self.at, self.piece) = (0, 0);
        }
    }

    fn take_sealed(&mut self) -> io::Result<()> {
        while self.server.wants_write() {
            self.server.write_tls(&mut self.sealed)?;
        }
        if self.ends.last().copied().unwrap_or(0) < self.sealed.len() {
            self.ends.push(self.sealed.len());
        }
        Ok(())
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(end) = self.ends.get(self.piece).copied() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let count = buffer.len().min(end - self.at);
        buffer[..count].copy_from_slice(&self.sealed[self.at..self.at + count]);
        self.at += count;
        self.piece += usize::from(self.at == end);
        Ok(count)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rewind();
        let mut left = bytes;
        while !left.is_empty() {
            self.server.read_tls(&mut left)?;
            self.server.process_new_packets().map_err(io::Error::other)?;
        }
        self.take_sealed()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
