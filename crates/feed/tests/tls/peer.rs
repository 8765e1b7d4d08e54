//! The other end of a connection, in memory: a server of rustls, and one whose records are made by
//! hand.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::kernel::KernelConnection;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ProtocolVersion, RootCertStore, ServerConfig,
    ServerConnection, SupportedCipherSuite,
};

use quietcore_feed::tls::{RecordPath, Tls, TlsError};

/// Every suite that a P-256 certificate can be used with.
pub const SUITES: [SupportedCipherSuite; 6] = [
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
];

pub const ALERT: u8 = 21;
pub const HANDSHAKE: u8 = 22;
pub const DATA: u8 = 23;

/// A certificate and its key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    pub pem: String,
    pub key_pem: String,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Signed by itself; `change` alters it before.
    pub fn new(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            certificate: certificate.into(),
            key: key.into(),
        }
    }

    pub fn server(&self, suites: &[SupportedCipherSuite]) -> ServerConfig {
        let mut provider = default_provider();
        provider.cipher_suites = suites.to_vec();
        let versions: Vec<_> = suites.iter().map(|suite| suite.version()).collect();
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .unwrap();
        config.enable_secret_extraction = true;
        config
    }

    /// A client that trusts this certificate alone.
    pub fn client(&self, suites: &[SupportedCipherSuite]) -> Arc<ClientConfig> {
        let mut provider = default_provider();
        provider.cipher_suites = suites.to_vec();
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.enable_secret_extraction = true;
        Arc::new(config)
    }
}

/// A server of rustls, and the socket to it: reads give at most `chunk` bytes.
pub struct Server {
    pub connection: ServerConnection,
    pub to_client: VecDeque<u8>,
    pub chunk: usize,
}

impl Server {
    pub fn new(config: ServerConfig) -> Self {
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        Self { connection, to_client: VecDeque::new(), chunk: usize::MAX }
    }

    fn seal(&mut self) {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.to_client).unwrap();
        }
    }

    /// The bytes of application data as the server seals them.
    pub fn send(&mut self, plain: &[u8]) {
        for part in plain.chunks(1 << 14) {
            self.connection.writer().write_all(part).unwrap();
            self.seal();
        }
    }

    /// A key update that asks for one in return.
    pub fn update_keys(&mut self) {
        self.connection.refresh_traffic_keys().unwrap();
        self.seal();
    }

    pub fn close(&mut self) {
        self.connection.send_close_notify();
        self.seal();
    }

    /// What the client has sent in these bytes.
    pub fn receive(&mut self, tls: &mut Vec<u8>) -> Vec<u8> {
        let mut bytes = &tls[..];
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes).unwrap();
            self.connection.process_new_packets().unwrap();
            // Without an end of the stream there is an error after the last byte.
            let _ = self.connection.reader().read_to_end(&mut plain);
        }
        tls.clear();
        self.seal();
        plain
    }
}

impl Read for Server {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.to_client.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let length = buffer.len().min(self.chunk);
        self.to_client.read(&mut buffer[..length])
    }
}

impl Write for Server {
    fn write(&mut self, mut buffer: &[u8]) -> io::Result<usize> {
        let length = buffer.len();
        while !buffer.is_empty() {
            self.connection.read_tls(&mut buffer)?;
            // Its alert tells the client.
            let _ = self.connection.process_new_packets();
        }
        self.seal();
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A server whose handshake is rustls's and whose records are made by hand.
pub struct Crafter {
    connection: UnbufferedServerConnection,
    incoming: Vec<u8>,
    to_client: VecDeque<u8>,
}

impl Crafter {
    pub fn new(mut config: ServerConfig) -> Self {
        config.send_tls13_tickets = 0;
        Self {
            connection: UnbufferedServerConnection::new(Arc::new(config)).unwrap(),
            incoming: Vec::new(),
            to_client: VecDeque::new(),
        }
    }

    fn turn(&mut self) {
        loop {
            let status = self.connection.process_tls_records(&mut self.incoming);
            let discard = status.discard;
            let mut waiting = false;
            match status.state.unwrap() {
                ConnectionState::EncodeTlsData(mut data) => {
                    let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) else {
                        panic!("nothing to encode");
                    };
                    let mut record = vec![0; size.required_size];
                    data.encode(&mut record).unwrap();
                    self.to_client.extend(record);
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                _ => waiting = true,
            }
            self.incoming.drain(..discard);
            if waiting {
                return;
            }
        }
    }

    /// After the handshake.
    pub fn finish(self) -> Hand {
        assert!(self.to_client.is_empty() && self.incoming.is_empty());
        let (secrets, kernel) = self.connection.dangerous_into_kernel_connection().unwrap();
        let is_tls13 = kernel.protocol_version() == ProtocolVersion::TLSv1_3;
        Hand {
            send: Cipher::new(is_tls13, secrets.tx.0, &secrets.tx.1),
            receive: Cipher::new(is_tls13, secrets.rx.0, &secrets.rx.1),
            kernel: Some(kernel),
        }
    }
}

impl Read for Crafter {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.to_client.read(buffer)
    }
}

impl Write for Crafter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.incoming.extend(buffer);
        self.turn();
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes a server's records and opens a client's, as the RFCs say.
pub struct Hand {
    pub send: Cipher,
    pub receive: Cipher,
    pub kernel: Option<KernelConnection<ServerConnectionData>>,
}

impl Hand {
    /// The server's next keys, as after its key update.
    pub fn update_send_keys(&mut self) {
        let (sequence, secrets) = self.kernel.as_mut().unwrap().update_tx_secret().unwrap();
        self.send = Cipher::new(true, sequence, &secrets);
    }

    /// The client's next keys, as after its key update.
    pub fn update_receive_keys(&mut self) {
        let (sequence, secrets) = self.kernel.as_mut().unwrap().update_rx_secret().unwrap();
        self.receive = Cipher::new(true, sequence, &secrets);
    }
}

/// One direction: RFC 8446 section 5.2, RFC 5288, RFC 7905.
pub struct Cipher {
    key: LessSafeKey,
    iv: [u8; 12],
    pub sequence: u64,
    is_tls13: bool,
    /// Bytes of the nonce that stand before the ciphertext.
    explicit: usize,
}

impl Cipher {
    pub fn new(is_tls13: bool, sequence: u64, secrets: &ConnectionTrafficSecrets) -> Self {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => panic!("no such cipher"),
        };
        let explicit = if is_tls13 || algorithm == &CHACHA20_POLY1305 { 0 } else { 8 };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).unwrap());
        Self { key, iv: iv.as_ref().try_into().unwrap(), sequence, is_tls13, explicit }
    }

    fn nonce(&self, explicit: &[u8]) -> Nonce {
        let mut nonce = self.iv;
        if self.explicit > 0 {
            nonce[4..].copy_from_slice(explicit);
        } else {
            let number = u64::from_be_bytes(nonce[4..].try_into().unwrap()) ^ self.sequence;
            nonce[4..].copy_from_slice(&number.to_be_bytes());
        }
        Nonce::assume_unique_for_key(nonce)
    }

    fn additional_data(&self, header: &[u8], length: usize) -> Vec<u8> {
        if self.is_tls13 {
            return header.to_vec();
        }
        let mut data = self.sequence.to_be_bytes().to_vec();
        data.extend(&header[..3]);
        data.extend((length as u16).to_be_bytes());
        data
    }

    /// A record; `padding` zeros only in TLS 1.3.
    pub fn record(&mut self, content_type: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let mut inner = content.to_vec();
        if self.is_tls13 {
            inner.push(content_type);
            inner.resize(inner.len() + padding, 0);
        }
        self.seal(if self.is_tls13 { DATA } else { content_type }, inner)
    }

    /// A record of exactly this plaintext.
    pub fn seal(&mut self, outer: u8, mut inner: Vec<u8>) -> Vec<u8> {
        let length = (self.explicit + inner.len() + 16) as u16;
        let mut record = vec![outer, 3, 3];
        record.extend(length.to_be_bytes());
        let data = self.additional_data(&record, inner.len());
        let explicit = (self.sequence ^ 0x5555).to_be_bytes();
        let nonce = self.nonce(&explicit);
        self.key.seal_in_place_append_tag(nonce, Aad::from(data), &mut inner).unwrap();
        record.extend(&explicit[..self.explicit]);
        record.extend(inner);
        self.sequence += 1;
        record
    }

    /// Opens the first record, and takes it away: its type and content.
    pub fn open(&mut self, bytes: &mut Vec<u8>) -> (u8, Vec<u8>) {
        let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        let record: Vec<u8> = bytes.drain(..5 + length).collect();
        let (header, body) = record.split_at(5);
        let (explicit, ciphertext) = body.split_at(self.explicit);
        let mut inner = ciphertext.to_vec();
        let data = self.additional_data(header, inner.len() - 16);
        let nonce = self.nonce(explicit);
        let length = self.key.open_in_place(nonce, Aad::from(data), &mut inner).unwrap().len();
        inner.truncate(length);
        self.sequence += 1;
        let content_type = if self.is_tls13 { inner.pop().unwrap() } else { header[0] };
        (content_type, inner)
    }
}

/// A connection to a server of this name's certificate.
pub fn connect(
    server: &mut (impl Read + Write),
    client: Arc<ClientConfig>,
    path: RecordPath,
) -> Result<Tls, TlsError> {
    Tls::connect(server, "localhost".try_into().unwrap(), client, path)
}

/// What came out of a stream: records, how it ended.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    pub records: Vec<Vec<u8>>,
    pub error: Option<String>,
    pub closed: bool,
}

/// Feeds `bytes` in pieces of these sizes, over and over.
pub fn feed(tls: &mut Tls, mut bytes: &[u8], sizes: &[usize]) -> Outcome {
    let mut outcome = Outcome::default();
    for size in sizes.iter().cycle() {
        loop {
            match tls.next() {
                Ok(Some(plain)) => outcome.records.push(plain.to_vec()),
                Ok(None) => break,
                Err(error) => {
                    outcome.error = Some(error.to_string());
                    return outcome;
                }
            }
        }
        if bytes.is_empty() {
            break;
        }
        let space = tls.space();
        let size = (*size).clamp(1, bytes.len()).min(space.len());
        space[..size].copy_from_slice(&bytes[..size]);
        tls.filled(size);
        bytes = &bytes[size..];
    }
    outcome.closed = tls.is_closed();
    outcome
}
