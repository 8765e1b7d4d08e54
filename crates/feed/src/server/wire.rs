//! A client's TLS connection, and how the bytes to it are cut: into records, and into writes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustls::{ServerConfig, ServerConnection};

use super::wake::Wake;

/// How something is cut into pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pieces {
    /// Not at all.
    #[default]
    Whole,
    /// So many bytes each.
    Of(usize),
    /// At random, up to so many bytes each.
    UpTo(usize),
}

impl Pieces {
    /// The next piece of so many bytes; never 0 unless there are none.
    fn cut(self, bytes: usize, random: &mut Rng) -> usize {
        match self {
            Self::Whole => bytes,
            Self::Of(size) => bytes.min(size.max(1)),
            Self::UpTo(size) => bytes.min(random.usize(1..=size.max(1))),
        }
    }
}

/// Why text says no [`Pieces`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` says no sizes of pieces: write whole, a number of bytes (7), or the most (..1400)")]
pub struct PiecesError(String);

impl FromStr for Pieces {
    type Err = PiecesError;

    fn from_str(text: &str) -> Result<Self, PiecesError> {
        let size = |digits: &str| digits.parse().ok().filter(|size| *size > 0);
        let pieces = match (text, text.strip_prefix("..")) {
            ("whole", _) => Some(Self::Whole),
            (_, Some(most)) => size(most).map(Self::UpTo),
            _ => size(text).map(Self::Of),
        };
        pieces.ok_or_else(|| PiecesError(text.to_owned()))
    }
}

/// How the bytes to a client are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cutting {
    /// Into TLS records, of the plaintext. A record never holds more than 16 KiB.
    pub record: Pieces,
    /// Into writes to the socket, of the records' bytes.
    pub write: Pieces,
}

/// A trickle: so many bytes every so often.
#[derive(Clone, Copy, Debug)]
struct Trickle {
    bytes: usize,
    every: Duration,
    next: Instant,
}

/// The connection. What is written to it goes into records with [`seal`](Self::seal) and out with
/// [`drain`](Self::drain); neither blocks.
pub(super) struct Wire {
    socket: TcpStream,
    tls: ServerConnection,
    wake: Arc<Wake>,
    cutting: Cutting,
    random: Rng,
    plain: Vec<u8>,
    cipher: Vec<u8>,
    written: usize,
    total: u64,
    trickle: Option<Trickle>,
    spoil_next: bool,
    has_ended: bool,
    is_half_closed: bool,
}

impl Wire {
    pub(super) fn new(
        socket: TcpStream,
        config: Arc<ServerConfig>,
        wake: Arc<Wake>,
        cutting: Cutting,
        seed: u64,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
        tls.set_buffer_limit(None);
        Ok(Self {
            socket,
            tls,
            wake,
            cutting,
            random: Rng::with_seed(seed),
            plain: Vec::new(),
            cipher: Vec::new(),
            written: 0,
            total: 0,
            trickle: None,
            spoil_next: false,
            has_ended: false,
            is_half_closed: false,
        })
    }

    /// Reads what has come. Fails where the connection or its TLS does; then an alert may still be
    /// waiting to be drained.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        while !self.has_ended {
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => self.has_ended = true,
                Ok(_) => {
                    let processed = self.tls.process_new_packets();
                    self.gather()?;
                    processed.map_err(io::Error::other)?;
                    // Read it before there is more: rustls holds only so much.
                    if !self.tls.wants_read() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Moves records that TLS has made to what is to be written.
    fn gather(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.cipher)?;
        }
        Ok(())
    }

    /// Makes records of everything written so far.
    pub(super) fn seal(&mut self) -> io::Result<()> {
        const LARGEST: usize = 16_384;
        let plain = std::mem::take(&mut self.plain);
        let mut rest = plain.as_slice();
        while !rest.is_empty() {
            let size = self.cutting.record.cut(rest.len(), &mut self.random).min(LARGEST);
            let (record, after) = rest.split_at(size);
            self.tls.writer().write_all(record)?;
            self.gather()?;
            rest = after;
            if std::mem::take(&mut self.spoil_next) {
                if let Some(last) = self.cipher.last_mut() {
                    *last ^= 1;
                }
            }
        }
        self.plain = plain;
        self.plain.clear();
        Ok(())
    }

    /// Writes what the socket takes.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        if self.is_half_closed {
            self.forget();
        }
        while let Some(rest) = self.cipher.get(self.written..).filter(|rest| !rest.is_empty()) {
            let mut size = self.cutting.write.cut(rest.len(), &mut self.random);
            if let Some(trickle) = &mut self.trickle {
                if Instant::now() < trickle.next {
                    return Ok(());
                }
                size = size.min(trickle.bytes);
                trickle.next = Instant::now() + trickle.every;
            }
            match self.socket.write(rest.get(..size).unwrap_or(rest)) {
                Ok(count) => {
                    self.written += count;
                    self.total += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.forget();
        Ok(())
    }

    fn forget(&mut self) {
        self.cipher.clear();
        self.written = 0;
    }

    /// Whether everything is written.
    pub(super) fn is_clear(&self) -> bool {
        self.plain.is_empty() && self.written == self.cipher.len()
    }

    /// Waits for bytes, for room if there is something to write, for a wake, or for the moment.
    pub(super) fn wait(&self, until: Option<Instant>) -> io::Result<()> {
        let trickle = self.trickle.map(|trickle| trickle.next).filter(|_| !self.is_clear());
        let is_held = trickle.is_some_and(|next| next > Instant::now());
        let until = match (until, trickle.filter(|_| is_held)) {
            (Some(until), Some(next)) => Some(until.min(next)),
            (until, next) => until.or(next),
        };
        self.wake.wait(self.socket.as_fd(), !self.is_clear() && !is_held, until)
    }

    /// Writes everything, waiting for the client, but no longer than until the moment, or for a
    /// second when the venue stops.
    pub(super) fn flush_until(
        &mut self,
        until: Instant,
        is_stopping: &AtomicBool,
    ) -> io::Result<()> {
        let brief = Instant::now() + Duration::from_secs(1);
        self.seal()?;
        self.drain()?;
        while !self.is_clear() {
            let until = if is_stopping.load(Ordering::Acquire) { brief.min(until) } else { until };
            if Instant::now() >= until {
                break;
            }
            self.wait(Some(until))?;
            self.drain()?;
        }
        Ok(())
    }

    /// The TLS handshake.
    pub(super) fn handshake(
        &mut self,
        until: Instant,
        is_stopping: impl Fn() -> bool,
    ) -> io::Result<()> {
        while self.tls.is_handshaking() {
            let read = self.fill();
            self.gather()?;
            self.drain()?;
            read?;
            if self.has_ended || is_stopping() || Instant::now() >= until {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.tls.is_handshaking() {
                self.wait(Some(until))?;
            }
        }
        self.gather()
    }

    /// Whether the client sent its last byte.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Bytes written to the socket.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// From now on only so many bytes a second.
    pub(super) fn slow_to(&mut self, per_second: u64) {
        let every =
            Duration::from_millis(if per_second >= 100 { 10 } else { 1_000 / per_second.max(1) });
        let bytes = usize::try_from((per_second / 100).max(1)).unwrap_or(usize::MAX);
        self.trickle = Some(Trickle { bytes, every, next: Instant::now() });
    }

    /// From now on as fast as the socket takes it.
    pub(super) fn at_full_speed(&mut self) {
        self.trickle = None;
    }

    /// The next record's last bit is wrong.
    pub(super) fn spoil_next(&mut self) {
        self.spoil_next = true;
    }

    /// New keys for what is sent (TLS 1.3 only).
    pub(super) fn update_keys(&mut self) -> Result<(), rustls::Error> {
        self.tls.refresh_traffic_keys()
    }

    /// Sends TLS's goodbye.
    pub(super) fn say_goodbye(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        self.gather()
    }

    /// The end of what is sent; nothing says goodbye.
    pub(super) fn half_close(&mut self) {
        self.is_half_closed = true;
        // The client may be gone already: then there is nothing to end.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// The end. Nothing says goodbye.
    pub(super) fn cut_off(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tls.reader().read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.plain.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Wire").field("socket", &self.socket).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_and_cut() {
        let mut random = Rng::with_seed(1);
        for (text, pieces) in
            [("whole", Pieces::Whole), ("7", Pieces::Of(7)), ("..9", Pieces::UpTo(9))]
        {
            assert_eq!(text.parse(), Ok(pieces));
            let cut: Vec<usize> = (0..100).map(|_| pieces.cut(50, &mut random)).collect();
            match pieces {
                Pieces::Whole => assert!(cut.iter().all(|size| *size == 50)),
                Pieces::Of(_) => assert!(cut.iter().all(|size| *size == 7)),
                Pieces::UpTo(_) => assert!((1..=9).all(|size| cut.contains(&size))),
            }
        }
        for text in ["", "0", "..0", "-1", "half"] {
            assert!(text.parse::<Pieces>().is_err(), "{text}");
        }
    }
}
