//! The record path of rustls: the reference that [`super::own`] is compared with.

use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::Negotiated;
use super::buffer::ReceiveBuffer;
use super::error::{RecordError, TlsError};
use super::handshake::next_record;

/// A connection that rustls runs, its buffers included.
pub(super) struct RustlsPath {
    connection: ClientConnection,
    negotiated: Negotiated,
    incoming: ReceiveBuffer,
    outgoing: Vec<u8>,
    /// How many bytes of plaintext were given out last, and are still in rustls's buffer.
    given: usize,
    dead: Option<RecordError>,
    closed: bool,
    close_sent: bool,
}

impl RustlsPath {
    pub(super) fn connect<S: Read + Write>(
        socket: &mut S,
        name: ServerName<'static>,
        config: Arc<ClientConfig>,
    ) -> Result<Self, TlsError> {
        let mut connection = ClientConnection::new(config, name).map_err(TlsError::of_handshake)?;
        let mut incoming = ReceiveBuffer::new();
        let mut outgoing = Vec::new();
        while connection.is_handshaking() {
            write(&mut connection, &mut outgoing, socket)?;
            let length = next_record(socket, &mut incoming, 0)?;
            let shaken = take_in(&mut connection, &mut incoming, length);
            // The alert with which rustls ends a handshake, too. The handshake's error is what
            // counts.
            let written = write(&mut connection, &mut outgoing, socket);
            shaken.map_err(TlsError::of_handshake)?;
            written?;
        }
        let agreed = connection.protocol_version().zip(connection.negotiated_cipher_suite());
        let (version, suite) =
            agreed.ok_or(TlsError::Handshake(rustls::Error::HandshakeNotComplete))?;
        Ok(Self {
            connection,
            negotiated: Negotiated::new(version, suite),
            incoming,
            outgoing,
            given: 0,
            dead: None,
            closed: false,
            close_sent: false,
        })
    }

    pub(super) fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.dead.is_some() || self.closed {
            self.incoming.consume(usize::MAX / 2);
        }
        self.incoming.space()
    }

    pub(super) fn filled(&mut self, count: usize) {
        self.incoming.filled(count);
    }

    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, TlsError> {
        self.connection.reader().consume(std::mem::take(&mut self.given));
        loop {
            match self.connection.reader().into_first_chunk() {
                Ok([]) => {
                    self.closed = true;
                    self.close();
                    return Ok(None);
                }
                Ok(chunk) => {
                    self.given = chunk.len();
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(TlsError::Socket(error)),
            }
            if let Some(error) = &self.dead {
                return Err(error.clone().into());
            }
            let length = self.incoming.unread().len();
            if length == 0 {
                return Ok(None);
            }
            // What came before the error in the same bytes is still given out.
            if let Err(error) = take_in(&mut self.connection, &mut self.incoming, length) {
                self.dead = Some(error.into());
            }
            seal(&mut self.connection, &mut self.outgoing);
        }
        Ok(self.connection.reader().into_first_chunk().ok())
    }

    pub(super) fn send(&mut self, plain: &[u8]) -> Result<(), TlsError> {
        if let Some(error) = &self.dead {
            return Err(error.clone().into());
        }
        if self.close_sent {
            return Err(RecordError::Closed.into());
        }
        let mut left = plain;
        while !left.is_empty() {
            let taken = self.connection.writer().write(left).map_err(TlsError::Socket)?;
            if taken == 0 {
                return Err(RecordError::KeysUsedUp.into());
            }
            left = &left[taken..];
            seal(&mut self.connection, &mut self.outgoing);
        }
        Ok(())
    }

    pub(super) fn close(&mut self) {
        if !self.close_sent && self.dead.is_none() {
            self.close_sent = true;
            self.connection.send_close_notify();
            seal(&mut self.connection, &mut self.outgoing);
        }
    }

    pub(super) fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Has rustls work on the first `length` bytes; after the handshake on as many as it takes at once,
/// which is 4 KiB.
fn take_in(
    connection: &mut ClientConnection,
    incoming: &mut ReceiveBuffer,
    length: usize,
) -> Result<(), rustls::Error> {
    let mut left = length;
    loop {
        let taken = connection
            .read_tls(&mut &incoming.unread()[..left])
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        incoming.consume(taken);
        left -= taken;
        connection.process_new_packets()?;
        if left == 0 || !connection.is_handshaking() {
            return Ok(());
        }
    }
}

/// Moves what rustls has sealed.
fn seal(connection: &mut ClientConnection, outgoing: &mut Vec<u8>) {
    while connection.wants_write() {
        // A vector takes everything.
        let _ = connection.write_tls(outgoing);
    }
}

fn write<S: Write>(
    connection: &mut ClientConnection,
    outgoing: &mut Vec<u8>,
    socket: &mut S,
) -> Result<(), TlsError> {
    seal(connection, outgoing);
    socket.write_all(outgoing).and_then(|()| socket.flush()).map_err(TlsError::of_socket)?;
    outgoing.clear();
    Ok(())
}

impl fmt::Debug for RustlsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RustlsPath").field(&self.connection).finish()
    }
}
