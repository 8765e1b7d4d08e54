//! One connection on the hot thread.

use std::io::{self, Write};
use std::os::fd::AsFd;

use quietcore_sys::net::Stream;

use super::clock::HotClock;
use super::dial::{Dialled, random};
use crate::stages::Laps;
use crate::tls::{Tls, TlsError};
use crate::websocket::{
    Decoder, Incoming, Limits, Opcode, ProtocolError, Utf8, encode, encode_close,
};

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The venue closed it in order.
    #[error("the venue closed it{}: {reason}", code.map(|code| format!(" with {code}")).unwrap_or_default())]
    Closed {
        /// Why, as a number.
        code: Option<u16>,
        /// Why, in words.
        reason: String,
    },
    /// It ended without a word: what RFC 6455 calls 1006.
    #[error("it ended without a close frame (1006)")]
    Ended,
    /// Nothing came for too long.
    #[error("nothing came for {0} s")]
    Silent(u64),
    /// What came is not WebSocket.
    #[error("what came is not WebSocket: {0}")]
    Protocol(#[from] ProtocolError),
    /// What came is not TLS.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// We want to subscribe anew, for a book is not what the venue says.
    #[error("a book is not what the venue says; subscribing anew")]
    Resubscribe,
    /// The socket failed.
    #[error("{0}")]
    Socket(#[from] io::Error),
}

/// When the read happened that brought what is being dealt with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// The kernel's stamp, CLOCK_REALTIME.
    pub stamp_ns: Option<u64>,
}

/// Takes the messages of a connection.
pub(super) trait Take {
    /// The clock of the thread.
    fn clock(&self) -> &HotClock;

    /// One message of text.
    fn take(&mut self, text: &[u8], laps: &mut Laps, arrival: &Arrival);
}

/// A connection's life so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Life {
    /// When it was opened, in ticks.
    pub opened: u64,
    /// When bytes came last, in ticks.
    pub heard: u64,
    /// Messages it brought.
    pub messages: u64,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: Stream,
    tls: Tls,
    decoder: Decoder,
    out: Vec<u8>,
    /// What became of it so far.
    pub life: Life,
    /// Reads that the card's hardware stamped.
    pub hardware_stamps: u64,
}

impl Link {
    /// Takes over what a dialler has opened.
    pub fn new(dialled: Dialled, now: u64) -> (Self, Vec<u8>) {
        // Text is JSON here, and its scanner compares bytes.
        let limits = Limits { utf8: Utf8::Trust, ..Limits::default() };
        let Dialled { socket, tls, rest } = dialled;
        let decoder = Decoder::new(limits);
        let out = Vec::with_capacity(1 << 10);
        let life = Life { opened: now, heard: now, messages: 0 };
        let link = Self { socket, tls, decoder, out, life, hardware_stamps: 0 };
        (link, rest)
    }

    /// Deals with what came in while it was being opened: nobody knows when.
    pub fn begin(&mut self, rest: &[u8], to: &mut impl Take) -> Result<(), LinkError> {
        let mut laps = Laps::read(to.clock().now(), None, 0);
        let arrival = Arrival { stamp_ns: None };
        self.life.messages +=
            frames(&mut self.decoder, &mut self.out, rest, &mut laps, &arrival, to)?;
        self.records(&mut laps, &arrival, to)
    }

    /// Reads what is there. `woke` is when the thread ran again; `None` where it never sleeps.
    /// Whether there was anything.
    #[inline]
    pub fn pump(&mut self, woke: Option<u64>, to: &mut impl Take) -> Result<bool, LinkError> {
        let got = match self.socket.receive(self.tls.space()) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let now = to.clock().now();
        if got.bytes == 0 {
            return Err(LinkError::Ended);
        }
        self.life.heard = now;
        self.hardware_stamps += u64::from(got.hardware_ns.is_some());
        let ran = woke.unwrap_or(now);
        let mut laps =
            Laps::read(now, to.clock().since(got.software_ns, ran), now.saturating_sub(ran));
        let arrival = Arrival { stamp_ns: got.software_ns };
        self.tls.filled(got.bytes);
        self.records(&mut laps, &arrival, to)?;
        Ok(true)
    }

    #[inline]
    fn records(
        &mut self,
        laps: &mut Laps,
        arrival: &Arrival,
        to: &mut impl Take,
    ) -> Result<(), LinkError> {
        while let Some(plain) = self.tls.next()? {
            laps.tls(to.clock().now(), self.decoder.is_inside());
            self.life.messages +=
                frames(&mut self.decoder, &mut self.out, plain, laps, arrival, to)?;
        }
        if !self.out.is_empty() {
            self.tls.send(&self.out)?;
            self.out.clear();
        }
        if !self.tls.outgoing().is_empty() {
            self.flush()?;
        }
        match self.tls.is_closed() {
            true => Err(LinkError::Ended),
            false => Ok(()),
        }
    }

    /// Sends a message of text.
    pub fn say(&mut self, text: &str) -> Result<(), LinkError> {
        self.send(Opcode::Text, text.as_bytes())
    }

    /// Asks for a sign of life.
    pub fn ping(&mut self) -> Result<(), LinkError> {
        self.send(Opcode::Ping, b"quietcore")
    }

    fn send(&mut self, opcode: Opcode, payload: &[u8]) -> Result<(), LinkError> {
        encode(opcode, payload, random(), &mut self.out);
        self.tls.send(&self.out)?;
        self.out.clear();
        self.flush()
    }

    /// Says goodbye, as far as the socket takes it.
    pub fn close(mut self) {
        encode_close(Some(1000), "", random(), &mut self.out);
        // It is over either way.
        let _ = self.tls.send(&self.out).map(|()| self.flush());
    }

    /// Sends what the socket takes; the rest goes with the next.
    pub fn flush(&mut self) -> Result<(), LinkError> {
        let out = self.tls.outgoing();
        while !out.is_empty() {
            match self.socket.write(out) {
                Ok(0) => return Err(LinkError::Ended),
                Ok(sent) => drop(out.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether something waits to be sent.
    pub fn has_unsent(&mut self) -> bool {
        !self.tls.outgoing().is_empty()
    }

    /// What was agreed on.
    pub fn negotiated(&self) -> String {
        let agreed = self.tls.negotiated();
        format!("{}, {}", agreed.version, agreed.cipher_suite)
    }

    pub fn socket(&self) -> &Stream {
        &self.socket
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The messages of some plaintext: how many. Answers go to `out`.
#[inline]
fn frames(
    decoder: &mut Decoder,
    out: &mut Vec<u8>,
    mut plain: &[u8],
    laps: &mut Laps,
    arrival: &Arrival,
    to: &mut impl Take,
) -> Result<u64, LinkError> {
    let mut messages = 0;
    // Mostly a record is a frame: then nothing is left to ask for, nor to time.
    while !plain.is_empty() {
        let incoming = decoder.next(&mut plain)?;
        laps.websocket(to.clock().now());
        match incoming {
            None => break,
            Some(Incoming::Text(text) | Incoming::Binary(text)) => {
                to.take(text, laps, arrival);
                messages += 1;
            }
            Some(Incoming::Ping(payload)) => encode(Opcode::Pong, payload, random(), out),
            Some(Incoming::Pong(_)) => {}
            Some(Incoming::Close { code, reason }) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                return Err(LinkError::Closed { code, reason });
            }
        }
    }
    Ok(messages)
}
