//! WebSocket (RFC 6455), without I/O and, where a frame lies whole in what was read, without copies.
//!
//! A client's side, and as much of a server's as the replay venue needs. No extension is ever asked
//! for, so none is understood: a compressed frame is a protocol error. Randomness is a parameter:
//! the caller brings the masks and the handshake's key.

mod decoder;
mod encoder;
mod error;
mod head;
pub mod upgrade;

pub use decoder::{Decoder, Limits, Utf8};
pub use encoder::{encode, encode_close, encode_fragment};
pub use error::ProtocolError;

/// The longest payload of a control frame, in bytes (RFC 6455, 5.5).
pub const CONTROL_LIMIT: usize = 125;

/// Which end of a connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Masks what it sends; what it receives is not masked.
    Client,
    /// Does not mask what it sends; what it receives is masked.
    Server,
}

/// What a frame is (RFC 6455, 5.2 and 11.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// The next fragment of the message that was begun.
    Continuation = 0,
    /// A message of UTF-8, or its first fragment.
    Text = 1,
    /// A message of bytes, or its first fragment.
    Binary = 2,
    /// The last frame that an end sends.
    Close = 8,
    /// To be answered with a pong of the same payload.
    Ping = 9,
    /// The answer to a ping, or a sign of life.
    Pong = 10,
}

impl Opcode {
    /// Whether it is about the connection rather than part of a message.
    pub fn is_control(self) -> bool {
        self as u8 >= Self::Close as u8
    }

    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }
}

/// A message or a control frame that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// A message of text: UTF-8 if the decoder was to check it.
    Text(&'a [u8]),
    /// A message of bytes.
    Binary(&'a [u8]),
    /// To be answered with a pong of the same payload.
    Ping(&'a [u8]),
    /// The answer to a ping, or a sign of life.
    Pong(&'a [u8]),
    /// The other end closes. To be answered with the same code, unless we closed first.
    Close {
        /// Why, as a number (RFC 6455, 7.4), if said.
        code: Option<u16>,
        /// Why, in words: UTF-8, at most 123 bytes.
        reason: &'a [u8],
    },
}

/// Applies a mask, or takes it off (RFC 6455, 5.3): the same operation.
fn mask(payload: &mut [u8], mask: [u8; 4]) {
    let mut words = payload.chunks_exact_mut(4);
    for word in &mut words {
        for (byte, key) in word.iter_mut().zip(mask) {
            *byte ^= key;
        }
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= key;
    }
}
