//! Handshake messages after the handshake, put together from records (RFC 8446 sections 4 and 5.1).

use std::ops::Range;

use super::error::RecordError;

pub(super) const HELLO_REQUEST: u8 = 0;
pub(super) const NEW_SESSION_TICKET: u8 = 4;
pub(super) const KEY_UPDATE: u8 = 24;

/// A `KeyUpdate` that asks for nothing (RFC 8446 section 4.6.3).
pub(super) const UPDATE_NOT_REQUESTED: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// Type and 24 bits of length.
const HEADER: usize = 4;
/// Longest message that is taken, as rustls does.
const MAX_LENGTH: usize = 0xffff;

/// A whole message: [`Messages::at`] has its body.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: u8,
    pub(super) body: Range<usize>,
}

/// The contents of handshake records that are not dealt with yet.
#[derive(Debug)]
pub(super) struct Messages {
    bytes: Vec<u8>,
    read: usize,
}

impl Messages {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(1024), read: 0 }
    }

    /// No message, and no part of one.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.read == self.bytes.len()
    }

    /// A handshake record's content. An overlong message shows by its header, before its bytes are
    /// kept.
    pub(super) fn add(&mut self, content: &[u8]) -> Result<(), RecordError> {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(content);
        self.peek().map(drop)
    }

    /// Type and length of the message that begins here, once its header is there.
    fn peek(&self) -> Result<Option<(u8, usize)>, RecordError> {
        let Some([kind, length @ ..]) = self.bytes[self.read..].first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length =
            usize::from(length[0]) << 16 | usize::from(length[1]) << 8 | usize::from(length[2]);
        if length > MAX_LENGTH {
            return Err(RecordError::MessageTooLong { length });
        }
        Ok(Some((*kind, length)))
    }

    /// The next message, once it is whole.
    pub(super) fn next(&mut self) -> Result<Option<Message>, RecordError> {
        let Some((kind, length)) = self.peek()? else { return Ok(None) };
        let body = self.read + HEADER..self.read + HEADER + length;
        if body.end > self.bytes.len() {
            return Ok(None);
        }
        self.read = body.end;
        Ok(Some(Message { kind, body }))
    }

    pub(super) fn at(&self, body: Range<usize>) -> &[u8] {
        &self.bytes[body]
    }
}

/// Whether a `KeyUpdate` asks for one in return.
pub(super) fn key_update(body: &[u8]) -> Result<bool, RecordError> {
    match *body {
        [0] => Ok(false),
        [1] => Ok(true),
        [request] => Err(RecordError::KeyUpdateRequest { request }),
        _ => Err(RecordError::MalformedMessage { kind: KEY_UPDATE }),
    }
}
