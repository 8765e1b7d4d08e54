//! One client, from its TLS handshake over its requests to its WebSocket.

use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::fault::{Answer as Scripted, Request};
use super::http::{self, Answer, Head, LONGEST_HEAD};
use super::hub::lock;
use super::rest::{self, Desk};
use super::socket::Socket;
use super::stream::{Address, Route};
use super::venue::Shared;
use super::wake::Wake;
use super::wire::Wire;

/// A handshake, or the next request, takes no longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nor does the writing of an answer.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves a client until it or the venue ends.
pub(super) fn serve(shared: &Shared, socket: TcpStream, wake: Arc<Wake>, number: u64) {
    let (tls, cutting) = (Arc::clone(&shared.tls), shared.config.cutting);
    let seed = shared.config.seed.wrapping_add(number);
    let Ok(mut wire) = Wire::new(socket, tls, Arc::clone(&wake), cutting, seed) else { return };
    if handshake(shared, &mut wire).is_err() {
        shared.counters.failed_handshakes.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let mut buffer = Vec::new();
    // A client that breaks the connection is how most of them end: nothing to report.
    let asked = requests(shared, &mut wire, &mut buffer);
    let Ok(Some((address, key))) = asked else {
        shared.counters.bytes.fetch_add(wire.total(), Ordering::Relaxed);
        return;
    };
    shared.counters.upgrades.fetch_add(1, Ordering::Relaxed);
    let mut socket = Socket::new(shared, wire, wake, address, buffer);
    let _ = socket.open(&key).and_then(|()| socket.run());
    let total = socket.leave();
    shared.counters.bytes.fetch_add(total, Ordering::Relaxed);
}

fn handshake(shared: &Shared, wire: &mut Wire) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    wire.handshake(until, || shared.is_stopping.load(Ordering::Acquire))
}

/// Answers requests until one is an upgrade that is granted: then where to, and its key. What
/// follows it stays in `buffer`.
fn requests(
    shared: &Shared,
    wire: &mut Wire,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<(Address, String)>> {
    while let Some(head) = next_head(shared, wire, buffer)? {
        buffer.drain(..head.length);
        let answer = match &head.upgrade {
            Some(key) => match upgrade(shared, &head) {
                Ok(address) => return Ok(Some((address, key.clone()))),
                Err(answer) => answer,
            },
            None => {
                shared.counters.requests.fetch_add(1, Ordering::Relaxed);
                let source = lock(&shared.source);
                let mut weights = lock(&shared.weights);
                let now = Instant::now();
                Desk { source: &source, armed: &shared.armed, weights: &mut weights, now }
                    .answer(&head)
            }
        };
        io::Write::write_all(wire, &answer.bytes())?;
        wire.flush_until(Instant::now() + PATIENCE, &shared.is_stopping)?;
        if head.closes || head.method != "GET" {
            break;
        }
    }
    wire.say_goodbye()?;
    wire.flush_until(Instant::now() + LAST_WORDS, &shared.is_stopping)?;
    Ok(None)
}

/// The next request's head; nothing if there is none.
fn next_head(shared: &Shared, wire: &mut Wire, buffer: &mut Vec<u8>) -> io::Result<Option<Head>> {
    let until = Instant::now() + PATIENCE;
    let mut chunk = [0; 4_096];
    loop {
        match Head::read(buffer) {
            Ok(Some(head)) => return Ok(Some(head)),
            Ok(None) if buffer.len() < LONGEST_HEAD => {}
            _ => return Ok(None),
        }
        wire.fill()?;
        match wire.read(&mut chunk) {
            Ok(0) => return Ok(None),
            Ok(count) => {
                buffer.extend_from_slice(chunk.get(..count).unwrap_or(&[]));
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let is_late = Instant::now() >= until || wire.has_ended();
        if is_late || shared.is_stopping.load(Ordering::Acquire) {
            return Ok(None);
        }
        wire.drain()?;
        wire.wait(Some(until))?;
    }
}

/// Where an upgrade leads, or the answer that refuses it.
fn upgrade(shared: &Shared, head: &Head) -> Result<Address, Answer> {
    if let Some(Scripted::Refuse(status, after)) = shared.armed.answer(Request::Upgrade) {
        return Err(rest::refusal(status, after));
    }
    let address = Address::parse(&head.target);
    let has_route =
        |address: &Address| address.route != Route::Legacy || shared.config.has_legacy_routes;
    let Some(address) = address.filter(has_route) else {
        let body = r#"{"code":-5000,"msg":"No stream is served here; /public and /market are."}"#;
        return Err(Answer::new(404, body.into()));
    };
    let source = lock(&shared.source);
    for name in &address.streams {
        let is_elsewhere =
            source.stream(name).is_some_and(|stream| !address.route.serves(stream.channel));
        if is_elsewhere {
            let answer = super::control::not_here(&serde_json::Value::Null, name, address.route);
            return Err(Answer::new(400, answer));
        }
    }
    Ok(address)
}

/// The bytes that grant an upgrade.
pub(super) fn granted(key: &str) -> Vec<u8> {
    http::switching(key)
}
