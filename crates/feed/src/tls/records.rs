//! The record layer after the handshake: bytes in, plaintext out, one record at a time.
//!
//! RFC 8446 sections 4.6, 5 and 6; RFC 5246 sections 6.2 and 7.2. It does no I/O and knows neither
//! certificates nor the key schedule: where new keys are needed it says so.

use std::ops::Range;

use rustls::ConnectionTrafficSecrets;

use super::Version;
use super::alert::{self, Alert};
use super::buffer::ReceiveBuffer;
use super::cipher::{HEADER, LEGACY_VERSION, MAX_CONTENT, MAX_EXPANSION, Opener, Sealer, content};
use super::error::RecordError;
use super::messages::{self, Message, Messages};

/// Empty records in a row that are borne, as rustls does.
const MAX_EMPTY: u32 = 32;
/// Key updates without application data between them that are borne, as BoringSSL does.
const MAX_KEY_UPDATES: u32 = 32;
/// Warnings that are borne in a connection's life, as BoringSSL does.
const MAX_WARNINGS: u32 = 4;

/// What stood next in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Application data: [`Records::at`] has the bytes.
    Data(Range<usize>),
    /// The next record is not there yet, or there is none any more.
    More,
    /// The peer changes its keys (RFC 8446 section 4.6.3): [`Records::set_receive_keys`] before
    /// anything else; where `asked` it wants ours changed, too.
    KeyUpdate {
        /// Whether the peer wants our keys changed.
        asked: bool,
    },
    /// The body of a session ticket (RFC 8446 section 4.6.1): [`Records::ticket`] has the bytes.
    Ticket(Range<usize>),
}

/// The record layer of one connection.
///
/// After an error it is dead: it says the same error again, and takes and gives nothing more.
#[derive(Debug)]
pub struct Records {
    version: Version,
    incoming: ReceiveBuffer,
    opener: Opener,
    sealer: Sealer,
    messages: Messages,
    outgoing: Vec<u8>,
    dead: Option<RecordError>,
    closed: bool,
    close_sent: bool,
    empty: u32,
    key_updates: u32,
    warnings: u32,
    renegotiations: u32,
}

impl Records {
    /// A record layer with what the handshake agreed on: each direction's secrets with the sequence
    /// number of its next record. `limit`: how many records one key may seal.
    ///
    /// `None` for a cipher that TLS 1.3 does not have.
    pub fn new(
        version: Version,
        receive: (u64, &ConnectionTrafficSecrets),
        send: (u64, &ConnectionTrafficSecrets),
        limit: u64,
    ) -> Option<Self> {
        Self::continuing(ReceiveBuffer::new(), version, receive, send, limit)
    }

    /// As [`Self::new`], with bytes that came together with the end of the handshake.
    pub(super) fn continuing(
        incoming: ReceiveBuffer,
        version: Version,
        receive: (u64, &ConnectionTrafficSecrets),
        send: (u64, &ConnectionTrafficSecrets),
        limit: u64,
    ) -> Option<Self> {
        Some(Self {
            version,
            incoming,
            opener: Opener::new(version, receive)?,
            sealer: Sealer::new(version, send, limit)?,
            messages: Messages::new(),
            outgoing: Vec::with_capacity(MAX_CONTENT),
            dead: None,
            closed: false,
            close_sent: false,
            empty: 0,
            key_updates: 0,
            warnings: 0,
            renegotiations: 0,
        })
    }

    /// Where the socket's bytes go.
    pub fn space(&mut self) -> &mut [u8] {
        if self.closed || self.dead.is_some() {
            // What comes after the end is of no interest (RFC 8446 section 6.1).
            self.incoming.consume(usize::MAX / 2);
        }
        self.incoming.space()
    }

    /// `count` bytes were read into [`Self::space`].
    pub fn filled(&mut self, count: usize) {
        self.incoming.filled(count);
    }

    /// The next thing that is not dealt with in here.
    #[inline]
    pub fn step(&mut self) -> Result<Step, RecordError> {
        if self.closed || self.dead.is_some() {
            return self.after_the_end();
        }
        match self.open_until_step() {
            Ok(step) => Ok(step),
            Err(error) => Err(self.fail(error)),
        }
    }

    #[cold]
    fn after_the_end(&self) -> Result<Step, RecordError> {
        self.dead.clone().map_or(Ok(Step::More), Err)
    }

    #[inline]
    fn open_until_step(&mut self) -> Result<Step, RecordError> {
        loop {
            if !self.messages.is_empty() {
                if let Some(step) = self.message()? {
                    return Ok(step);
                }
            }
            let Some((content_type, plain)) = self.record()? else {
                return Ok(Step::More);
            };
            if !self.messages.is_empty() && content_type != content::HANDSHAKE {
                return Err(RecordError::Interleaved { content_type });
            }
            if content_type == content::APPLICATION_DATA && !plain.is_empty() {
                self.empty = 0;
                self.key_updates = 0;
                return Ok(Step::Data(plain));
            }
            self.control(content_type, plain)?;
            if self.closed {
                return Ok(Step::More);
            }
        }
    }

    /// The next record's type and where its content stands, once it has come whole.
    #[inline]
    fn record(&mut self) -> Result<Option<(u8, Range<usize>)>, RecordError> {
        let unread = self.incoming.unread_mut();
        let Some((header, rest)) = unread.split_first_chunk_mut::<HEADER>() else {
            return Ok(None);
        };
        let version = u16::from_be_bytes([header[1], header[2]]);
        if version != LEGACY_VERSION {
            return Err(RecordError::Version { version });
        }
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length > MAX_CONTENT + MAX_EXPANSION {
            return Err(RecordError::Oversized { length });
        }
        let Some(body) = rest.get_mut(..length) else {
            return Ok(None);
        };
        let (content_type, plain) = self.opener.open(*header, body)?;
        let start = self.incoming.consume(HEADER + length).start + HEADER;
        Ok(Some((content_type, start + plain.start..start + plain.end)))
    }

    /// Everything but application data that has bytes.
    #[cold]
    fn control(&mut self, content_type: u8, plain: Range<usize>) -> Result<(), RecordError> {
        if !plain.is_empty() {
            self.empty = 0;
        }
        match content_type {
            content::APPLICATION_DATA => {
                self.empty += 1;
                if self.empty > MAX_EMPTY {
                    return Err(RecordError::TooManyEmpty);
                }
                Ok(())
            }
            // RFC 8446 section 5.4.
            content::HANDSHAKE | content::ALERT if plain.is_empty() => {
                Err(RecordError::EmptyControl { content_type })
            }
            content::HANDSHAKE => self.messages.add(self.incoming.at(plain)),
            content::ALERT => match *self.incoming.at(plain) {
                [level, description] => self.alert(level, Alert(description)),
                _ => Err(RecordError::MalformedAlert),
            },
            _ => Err(RecordError::UnexpectedType { content_type }),
        }
    }

    /// RFC 8446 section 6 and RFC 5246 section 7.2: in TLS 1.2 warnings are borne, in TLS 1.3 every
    /// alert but two ends the connection.
    fn alert(&mut self, level: u8, alert: Alert) -> Result<(), RecordError> {
        if !matches!(level, alert::WARNING | alert::FATAL) {
            return Err(RecordError::MalformedAlert);
        }
        if alert == Alert::CLOSE_NOTIFY {
            self.closed = true;
            self.close();
            return Ok(());
        }
        let borne = level == alert::WARNING
            && (self.version == Version::Tls12 || alert == Alert::USER_CANCELED);
        if !borne {
            return Err(RecordError::Alert(alert));
        }
        self.warnings += 1;
        if self.warnings > MAX_WARNINGS { Err(RecordError::TooManyWarnings) } else { Ok(()) }
    }

    /// The next whole handshake message, where it is not dealt with in here.
    #[cold]
    fn message(&mut self) -> Result<Option<Step>, RecordError> {
        while let Some(Message { kind, body }) = self.messages.next()? {
            match (self.version, kind) {
                (Version::Tls13, messages::NEW_SESSION_TICKET) => {
                    return Ok(Some(Step::Ticket(body)));
                }
                (Version::Tls13, messages::KEY_UPDATE) => {
                    let asked = messages::key_update(self.messages.at(body))?;
                    // RFC 8446 section 5.1: no message may span a change of keys.
                    if !self.messages.is_empty() {
                        return Err(RecordError::KeyChangeInsideRecord);
                    }
                    self.key_updates += 1;
                    if self.key_updates > MAX_KEY_UPDATES {
                        return Err(RecordError::TooManyKeyUpdates);
                    }
                    return Ok(Some(Step::KeyUpdate { asked }));
                }
                (Version::Tls12, messages::HELLO_REQUEST) => self.decline_renegotiation(body)?,
                _ => return Err(RecordError::UnexpectedMessage { kind }),
            }
        }
        Ok(None)
    }

    /// RFC 5246 section 7.4.1.1: a client may decline. Once is enough.
    fn decline_renegotiation(&mut self, body: Range<usize>) -> Result<(), RecordError> {
        if !body.is_empty() {
            return Err(RecordError::MalformedMessage { kind: messages::HELLO_REQUEST });
        }
        self.renegotiations += 1;
        if self.renegotiations > 1 {
            return Err(RecordError::Renegotiation);
        }
        self.send_alert(alert::WARNING, Alert::NO_RENEGOTIATION)
    }

    /// The bytes of a [`Step::Data`], until bytes are asked for or put in again.
    #[inline]
    pub fn at(&self, data: Range<usize>) -> &[u8] {
        self.incoming.at(data)
    }

    /// The bytes of a [`Step::Ticket`], until the next step.
    pub fn ticket(&self, ticket: Range<usize>) -> &[u8] {
        self.messages.at(ticket)
    }

    /// The keys of the peer's next records, after [`Step::KeyUpdate`].
    ///
    /// `false`, and nothing changed, for a cipher that TLS 1.3 does not have.
    pub fn set_receive_keys(&mut self, keys: (u64, &ConnectionTrafficSecrets)) -> bool {
        let opener = Opener::new(self.version, keys);
        opener.is_some_and(|opener| {
            self.opener = opener;
            true
        })
    }

    /// Tells the peer that our keys change (RFC 8446 section 4.6.3), which they then do. The peer
    /// is not asked to change its own.
    ///
    /// `false`, and nothing changed, for a cipher that TLS 1.3 does not have.
    pub fn update_send_keys(
        &mut self,
        keys: (u64, &ConnectionTrafficSecrets),
        limit: u64,
    ) -> Result<bool, RecordError> {
        let Some(sealer) = Sealer::new(self.version, keys, limit) else {
            return Ok(false);
        };
        self.sealer.seal(
            content::HANDSHAKE,
            &messages::UPDATE_NOT_REQUESTED,
            &mut self.outgoing,
        )?;
        self.sealer = sealer;
        Ok(true)
    }

    /// Whether the next record is the last that the keys may seal: it is then a key update's or
    /// `close_notify`'s.
    pub fn keys_nearly_used_up(&self) -> bool {
        self.sealer.left() <= 1
    }

    /// Seals one record of at most 2^14 bytes of application data into [`Self::outgoing`].
    pub fn send(&mut self, plain: &[u8]) -> Result<(), RecordError> {
        if let Some(error) = &self.dead {
            return Err(error.clone());
        }
        if self.close_sent {
            return Err(RecordError::Closed);
        }
        if self.keys_nearly_used_up() {
            self.close();
            return Err(RecordError::KeysUsedUp);
        }
        self.sealer.seal(content::APPLICATION_DATA, plain, &mut self.outgoing)
    }

    /// Says that nothing more will be sent (RFC 8446 section 6.1), once.
    pub fn close(&mut self) {
        if !self.close_sent && self.dead.is_none() {
            self.close_sent = true;
            // Without a record left to seal, the end of the connection has to say it.
            let _ = self.send_alert(alert::WARNING, Alert::CLOSE_NOTIFY);
        }
    }

    /// Ends the connection, and says why to the peer.
    pub fn fail(&mut self, error: RecordError) -> RecordError {
        if self.dead.is_none() {
            if let Some(alert) = error.alert().filter(|_| !self.close_sent) {
                let _ = self.send_alert(alert::FATAL, alert);
            }
            self.dead = Some(error.clone());
        }
        error
    }

    fn send_alert(&mut self, level: u8, alert: Alert) -> Result<(), RecordError> {
        self.sealer.seal(content::ALERT, &[level, alert.0], &mut self.outgoing)
    }

    /// Sealed bytes for the socket.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Whether the peer has said that it sends nothing more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}
