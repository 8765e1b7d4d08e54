//! A client that shares no code with the engine: tungstenite over rustls, and plain HTTP.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use quietcore_feed::server::{Begin, Config, Generator, Pace, Running, Settings, Source, Venue};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use serde_json::Value;
use tungstenite::{Message, WebSocket};

pub type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Long enough for any machine: only a failing test ever waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn generated(seed: u64) -> Source {
    Source::Generated(Box::new(Generator::new(Settings { seed, ..Settings::default() })))
}

/// A venue that goes as fast as it is read, from the first listener on.
pub fn as_read(faults: &str) -> Config {
    Config {
        pace: Pace::AsRead,
        begin: Begin::WithListeners(1),
        faults: faults.parse().unwrap(),
        ..Config::default()
    }
}

pub fn start(config: Config) -> Running {
    Venue::start(generated(7), config).unwrap()
}

pub fn try_tls(
    venue: &Running,
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<Tls> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(venue.roots_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("fstream.binance.com").unwrap();
    let mut socket = TcpStream::connect(venue.address())?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(tls, socket))
}

pub fn tls(venue: &Running) -> Tls {
    try_tls(venue, rustls::ALL_VERSIONS).unwrap()
}

pub fn try_open(
    venue: &Running,
    target: &str,
) -> Result<WebSocket<Tls>, Box<tungstenite::HandshakeError<tungstenite::ClientHandshake<Tls>>>> {
    let url = format!("wss://fstream.binance.com{target}");
    tungstenite::client(url, tls(venue)).map(|opened| opened.0).map_err(Box::new)
}

pub fn open(venue: &Running, target: &str) -> WebSocket<Tls> {
    try_open(venue, target).unwrap()
}

/// The next text message.
pub fn text(socket: &mut WebSocket<Tls>) -> String {
    loop {
        match socket.read().unwrap() {
            Message::Text(text) => return text.to_string(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

pub fn texts(socket: &mut WebSocket<Tls>, count: usize) -> Vec<String> {
    (0..count).map(|_| text(socket)).collect()
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn say(socket: &mut WebSocket<Tls>, text: &str) {
    socket.send(Message::text(text)).unwrap();
}

/// An answer's status, its head, and its body.
pub fn get(venue: &Running, target: &str) -> (u16, String, String) {
    let mut tls = tls(venue);
    write!(tls, "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    BufReader::new(tls).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// A book after Binance's rules, as plainly as they can be written down. Prices are whole numbers
/// of the last digit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    pub bids: BTreeMap<u64, String>,
    pub asks: BTreeMap<u64, String>,
    pub last: u64,
}

pub fn price(value: &Value) -> u64 {
    value.as_str().unwrap().replace('.', "").parse().unwrap()
}

fn is_nothing(quantity: &str) -> bool {
    quantity.bytes().all(|digit| matches!(digit, b'0' | b'.'))
}

impl Reference {
    pub fn of_snapshot(snapshot: &Value) -> Self {
        let mut book = Self { last: snapshot["lastUpdateId"].as_u64().unwrap(), ..Self::default() };
        apply(&mut book.bids, &snapshot["bids"]);
        apply(&mut book.asks, &snapshot["asks"]);
        book
    }

    /// Applies a depth message that follows.
    pub fn apply(&mut self, depth: &Value) {
        apply(&mut self.bids, &depth["b"]);
        apply(&mut self.asks, &depth["a"]);
        self.last = depth["u"].as_u64().unwrap();
    }

    /// The best bid and ask: prices and quantities.
    pub fn top(&self) -> Option<[(u64, String); 2]> {
        let (bid, ask) = (self.bids.last_key_value()?, self.asks.first_key_value()?);
        Some([(*bid.0, bid.1.clone()), (*ask.0, ask.1.clone())])
    }
}

fn apply(levels: &mut BTreeMap<u64, String>, changes: &Value) {
    for change in changes.as_array().unwrap() {
        let quantity = change[1].as_str().unwrap();
        if is_nothing(quantity) {
            levels.remove(&price(&change[0]));
        } else {
            levels.insert(price(&change[0]), quantity.to_owned());
        }
    }
}

pub fn top_of_quote(quote: &Value) -> [(u64, String); 2] {
    let side = |p: &str, q: &str| (price(&quote[p]), quote[q].as_str().unwrap().to_owned());
    [side("b", "B"), side("a", "A")]
}
