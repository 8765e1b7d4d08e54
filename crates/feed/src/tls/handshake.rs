//! The handshake: rustls's, over a blocking socket.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData};
use rustls::{ClientConfig, ExtractedSecrets};

use super::buffer::ReceiveBuffer;
use super::cipher::HEADER;
use super::error::TlsError;

/// Longest record that rustls takes (RFC 5246 section 6.2.3).
const MAX_LENGTH: usize = (1 << 14) + 2048;
/// How much of an answer that is not TLS is shown, in characters and in bytes.
const SHOWN: usize = 60;
const SHOWN_BYTES: usize = 8;

/// A connection whose records are ours from here on.
pub(super) struct Shaken {
    pub(super) secrets: ExtractedSecrets,
    pub(super) kernel: KernelConnection<ClientConnectionData>,
    /// What came after the handshake's last record.
    pub(super) incoming: ReceiveBuffer,
}

/// Shakes hands. rustls sees the handshake's records and none after them: it would decrypt those,
/// and could hold an answer to a key update that [`KernelConnection`] does not hand over.
pub(super) fn shake<S: Read + Write>(
    socket: &mut S,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
) -> Result<Shaken, TlsError> {
    let mut connection =
        UnbufferedClientConnection::new(config, name).map_err(TlsError::of_handshake)?;
    let mut incoming = ReceiveBuffer::new();
    let mut outgoing = Vec::new();
    // How many unread bytes rustls has been shown: whole records.
    let mut shown = 0;
    loop {
        let status = connection.process_tls_records(&mut incoming.unread_mut()[..shown]);
        let discard = status.discard;
        let mut wanting = false;
        match status.state {
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut outgoing)?,
            Ok(ConnectionState::TransmitTlsData(data)) => {
                write(socket, &mut outgoing)?;
                data.done();
            }
            Ok(ConnectionState::BlockedHandshake) => wanting = true,
            // Done, unless a part of a handshake message stands at the end of what was shown.
            Ok(ConnectionState::WriteTraffic(_)) if discard == shown => break,
            Ok(ConnectionState::WriteTraffic(_)) => wanting = true,
            // The peer says close_notify; data is not shown to rustls.
            Ok(_) => return Err(TlsError::ClosedInHandshake),
            Err(error) => {
                tell(&mut connection, socket, outgoing);
                return Err(TlsError::of_handshake(error));
            }
        }
        incoming.consume(discard);
        shown -= discard;
        if wanting {
            shown = next_record(socket, &mut incoming, shown)?;
        }
    }
    incoming.consume(shown);
    let (secrets, kernel) =
        connection.dangerous_into_kernel_connection().map_err(TlsError::of_handshake)?;
    Ok(Shaken { secrets, kernel, incoming })
}

fn encode(
    mut data: EncodeTlsData<'_, ClientConnectionData>,
    outgoing: &mut Vec<u8>,
) -> Result<(), TlsError> {
    let start = outgoing.len();
    let failed =
        |error: EncodeError| TlsError::Handshake(rustls::Error::General(error.to_string()));
    match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(size)) => {
            outgoing.resize(start + size.required_size, 0);
            data.encode(&mut outgoing[start..]).map(drop).map_err(failed)
        }
        other => other.map(drop).map_err(failed),
    }
}

/// Where the record ends that comes after the first `shown` bytes; reads until it has come.
pub(super) fn next_record<S: Read>(
    socket: &mut S,
    incoming: &mut ReceiveBuffer,
    shown: usize,
) -> Result<usize, TlsError> {
    loop {
        let unread = incoming.unread();
        if let Some([kind, major, _, high, low]) = unread[shown..].first_chunk::<HEADER>() {
            // `ContentType` and the first half of every version since SSL 3 (RFC 8446 section 5.1).
            if !(20..=23).contains(kind) || *major != 3 {
                return Err(foreign(socket, incoming, shown));
            }
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let end = shown + HEADER + length;
            if end <= unread.len() {
                return Ok(end);
            }
            // rustls says so by the header, without the bytes.
            if length > MAX_LENGTH {
                return Ok(unread.len());
            }
        }
        receive(socket, incoming)?;
    }
}

/// Reads once, at least one byte.
fn receive<S: Read>(socket: &mut S, incoming: &mut ReceiveBuffer) -> Result<(), TlsError> {
    loop {
        match socket.read(incoming.space()) {
            Ok(0) => return Err(TlsError::ClosedInHandshake),
            Ok(count) => {
                incoming.filled(count);
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(TlsError::of_socket(error)),
        }
    }
}

/// Who speaks instead of TLS, by its first line.
fn foreign<S: Read>(socket: &mut S, incoming: &mut ReceiveBuffer, shown: usize) -> TlsError {
    let is_http = incoming.unread()[shown..].starts_with(b"HTTP/");
    if !is_http {
        let said = &incoming.unread()[shown..];
        return TlsError::NotTls(said[..said.len().min(SHOWN_BYTES)].to_vec());
    }
    loop {
        let said = &incoming.unread()[shown..];
        let end = said.iter().take(SHOWN).position(|byte| *byte == b'\n');
        if end.is_none() && said.len() < SHOWN && receive(socket, incoming).is_ok() {
            continue;
        }
        let said = &incoming.unread()[shown..];
        let line = &said[..end.unwrap_or(said.len().min(SHOWN))];
        return TlsError::PlainHttp(String::from_utf8_lossy(line).trim_end().to_owned());
    }
}

fn write<S: Write>(socket: &mut S, outgoing: &mut Vec<u8>) -> Result<(), TlsError> {
    socket.write_all(outgoing).and_then(|()| socket.flush()).map_err(TlsError::of_socket)?;
    outgoing.clear();
    Ok(())
}

/// Sends the alert with which rustls ends a handshake. The handshake's error is what counts.
fn tell<S: Write>(
    connection: &mut UnbufferedClientConnection,
    socket: &mut S,
    mut outgoing: Vec<u8>,
) {
    while connection.wants_write() {
        let Ok(ConnectionState::EncodeTlsData(data)) =
            connection.process_tls_records(&mut []).state
        else {
            break;
        };
        if encode(data, &mut outgoing).is_err() {
            break;
        }
    }
    let _ = write(socket, &mut outgoing);
}
