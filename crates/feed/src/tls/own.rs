//! The record path of our own: [`Records`] with the key schedule of rustls behind it.

use std::fmt;
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;

use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion, SupportedCipherSuite};

use super::cipher::MAX_CONTENT;
use super::error::{RecordError, TlsError};
use super::handshake::{self, Shaken};
use super::messages::NEW_SESSION_TICKET;
use super::records::{Records, Step};
use super::{Negotiated, Version};

/// A connection after the handshake.
pub(super) struct OwnPath {
    records: Records,
    kernel: KernelConnection<ClientConnectionData>,
    /// How many records one key may seal.
    limit: u64,
}

impl OwnPath {
    pub(super) fn connect<S: Read + Write>(
        socket: &mut S,
        name: ServerName<'static>,
        config: Arc<ClientConfig>,
    ) -> Result<Self, TlsError> {
        let Shaken { secrets, kernel, incoming } = handshake::shake(socket, name, config)?;
        let unsupported = || {
            TlsError::Handshake(rustls::Error::General("a cipher suite that is not known".into()))
        };
        let version = match kernel.protocol_version() {
            ProtocolVersion::TLSv1_3 => Version::Tls13,
            ProtocolVersion::TLSv1_2 => Version::Tls12,
            _ => return Err(unsupported()),
        };
        let limit = match kernel.negotiated_cipher_suite() {
            SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
            SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
        };
        let (receive, send) = ((secrets.rx.0, &secrets.rx.1), (secrets.tx.0, &secrets.tx.1));
        let records =
            Records::continuing(incoming, version, receive, send, limit).ok_or_else(unsupported)?;
        Ok(Self { records, kernel, limit })
    }

    pub(super) fn negotiated(&self) -> Negotiated {
        Negotiated::new(self.kernel.protocol_version(), self.kernel.negotiated_cipher_suite())
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, TlsError> {
        loop {
            match self.records.step()? {
                Step::Data(data) => return Ok(Some(self.records.at(data))),
                Step::More => return Ok(None),
                Step::KeyUpdate { asked } => self.update(asked)?,
                Step::Ticket(ticket) => self.keep(ticket)?,
            }
        }
    }

    /// The peer's next keys, and ours where it asks for them (RFC 8446 sections 4.6.3 and 7.2).
    #[cold]
    fn update(&mut self, asked: bool) -> Result<(), RecordError> {
        let (sequence, secrets) =
            self.kernel.update_rx_secret().map_err(|error| self.records.fail(error.into()))?;
        if !self.records.set_receive_keys((sequence, &secrets)) {
            return Err(self.records.fail(RecordError::KeysUsedUp));
        }
        if asked { self.update_send_keys() } else { Ok(()) }
    }

    fn update_send_keys(&mut self) -> Result<(), RecordError> {
        let (sequence, secrets) =
            self.kernel.update_tx_secret().map_err(|error| self.records.fail(error.into()))?;
        match self.records.update_send_keys((sequence, &secrets), self.limit) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.records.fail(RecordError::KeysUsedUp)),
            Err(error) => Err(self.records.fail(error)),
        }
    }

    /// A ticket makes the next handshake with this server shorter (RFC 8446 section 4.6.1).
    #[cold]
    fn keep(&mut self, ticket: Range<usize>) -> Result<(), RecordError> {
        let kept = self.kernel.handle_new_session_ticket(self.records.ticket(ticket));
        kept.map_err(|_| {
            self.records.fail(RecordError::MalformedMessage { kind: NEW_SESSION_TICKET })
        })
    }

    pub(super) fn send(&mut self, plain: &[u8]) -> Result<(), TlsError> {
        for part in plain.chunks(MAX_CONTENT) {
            let is_tls13 = self.kernel.protocol_version() == ProtocolVersion::TLSv1_3;
            if is_tls13 && self.records.keys_nearly_used_up() {
                self.update_send_keys()?;
            }
            self.records.send(part)?;
        }
        Ok(())
    }

    pub(super) fn records(&mut self) -> &mut Records {
        &mut self.records
    }

    pub(super) fn is_closed(&self) -> bool {
        self.records.is_closed()
    }
}

impl fmt::Debug for OwnPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnPath").field(&self.records).finish()
    }
}
