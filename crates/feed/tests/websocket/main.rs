//! The WebSocket decoder and encoder against RFC 6455 and against tungstenite and fastwebsockets.
#![forbid(unsafe_code)]

mod oracles;
mod protocol;

use quietcore_feed::websocket::{Decoder, Incoming, Limits, ProtocolError, Role, Utf8};

/// An [`Incoming`] that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, Vec<u8>),
}

impl From<Incoming<'_>> for Event {
    fn from(incoming: Incoming<'_>) -> Self {
        match incoming {
            Incoming::Text(bytes) => Self::Text(bytes.to_vec()),
            Incoming::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Incoming::Ping(bytes) => Self::Ping(bytes.to_vec()),
            Incoming::Pong(bytes) => Self::Pong(bytes.to_vec()),
            Incoming::Close { code, reason } => Self::Close(code, reason.to_vec()),
        }
    }
}

/// What came before the error, if there is one.
type Read = (Vec<Event>, Option<ProtocolError>);

const LIMITS: Limits = Limits { message: 70_000, buffer: 1_000, utf8: Utf8::Check };

/// Decodes a stream that comes in pieces of the given sizes, the last one for the rest as well.
fn decode(role: Role, bytes: &[u8], sizes: &[usize]) -> Read {
    read(Decoder::with_role(role, LIMITS), bytes, sizes)
}

fn read(mut decoder: Decoder, mut bytes: &[u8], sizes: &[usize]) -> Read {
    let mut events = Vec::new();
    let mut sizes = sizes.iter().copied();
    let mut size = bytes.len();
    while !bytes.is_empty() {
        size = sizes.next().unwrap_or(size).clamp(1, bytes.len());
        let (mut piece, rest) = bytes.split_at(size);
        bytes = rest;
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(incoming)) => events.push(incoming.into()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next(&mut &b"\x81\x00"[..]), Err(error), "dead for good");
                    return (events, Some(error));
                }
            }
        }
        assert!(piece.is_empty(), "all of a piece is read before the next is asked for");
    }
    (events, None)
}
