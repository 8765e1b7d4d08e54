//! S3: a frame, beside fastwebsockets and tungstenite.
//!
//! All read one endless stream of the market's messages. The peers own their buffers, so that reading
//! is a copy for them; the engine's records are decrypted where they were received, and it reads them
//! there ("in place"), which is the row with the target. The others show ours with the same copy. In
//! reads of 4 KiB, which is what a socket or rustls gives at most, frames lie across reads; behind
//! TLS, a read is most often a record and that a frame. The peers are set up as their documentation says. tungstenite: a read
//! buffer of 128 KiB "for high read load" (its default) and one of the reads' size; the better one
//! of each round counts. fastwebsockets: a current-thread tokio runtime, `auto_close` and
//! `auto_pong` on, `writev` off, SIMD for UTF-8, whole messages by `FragmentCollector` and raw
//! frames; the better one counts.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use anyhow::{bail, ensure};
use fastwebsockets::{FragmentCollector, WebSocket as FastWebSocket};
use quietcore_feed::websocket::{Decoder, Incoming, Limits, Opcode, Utf8, encode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;
use tungstenite::WebSocket;
use tungstenite::protocol::{Role, WebSocketConfig};

use crate::market::Sample;
use crate::turns::{Row, Side, Target, better, take_turns};

const READ: usize = 4 << 10;
/// A buffer that takes every frame.
const LONGEST: usize = 64 << 10;
/// Frames of the stream: short enough to stay in the nearest caches, where the bytes are in the
/// engine, too, having just been decrypted.
const STREAM: usize = 100;
/// Times that a turn reads the stream.
const REPEATS: usize = 5;
const FRAMES: usize = STREAM * REPEATS;

/// Rows for reads of 4 KiB and for reads of a frame.
pub fn rows(sample: &Sample, rounds: usize) -> anyhow::Result<Vec<Row>> {
    let texts = &sample.messages[..STREAM.min(sample.messages.len())];
    ensure!(texts.len() == STREAM, "only {} messages", texts.len());
    let mut bytes = Vec::new();
    let mut frames = Vec::new();
    for text in texts {
        encode(Opcode::Text, text, None, &mut bytes);
        frames.push(bytes.len());
    }
    let mut reads: Vec<_> =
        (1..).map(|read| read * READ).take_while(|end| *end < bytes.len()).collect();
    reads.push(bytes.len());
    let length = texts.iter().map(Vec::len).sum::<usize>();
    let of = |cuts: &[usize], what: &str| {
        let what = format!("S3 WebSocket, {} B, {what}", length / STREAM);
        compare(Stream { bytes: &bytes, cuts }, length * REPEATS, &what, rounds)
    };
    let mut rows = of(&reads, "4 KiB a read")?;
    rows.extend(of(&frames, "a frame a read")?);
    Ok(rows)
}

fn compare(
    stream: Stream<'_>,
    bytes: usize,
    what: &str,
    rounds: usize,
) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut sides: [Side<'_>; 7] = [
        timed(bytes, ours(stream, Utf8::Trust)),
        timed(bytes, ours(stream, Utf8::Check)),
        timed(bytes, ours_in_place(stream)),
        timed(bytes, fast_frames(stream, &runtime)),
        timed(bytes, fast_messages(stream, &runtime)),
        timed(bytes, tungstenite(stream, 128 << 10)),
        timed(bytes, tungstenite(stream, READ)),
    ];
    let times = take_turns(rounds, &mut sides)?;
    let fast = better(&times[3], &times[4]);
    let tungstenite = better(&times[5], &times[6]);
    let beside = |side: usize, more: &str, target| {
        Row::of(format!("{what}{more}"), &times[side], "fastwebsockets", &fast, target)
    };
    Ok(vec![
        beside(2, ", in place", Target::Ratio(0.25)),
        beside(0, "", Target::None),
        Row::of(what, &times[0], "tungstenite", &tungstenite, Target::None),
        beside(1, ", UTF-8 checked", Target::None),
    ])
}

/// A turn of a reader, which has to read so many bytes.
fn timed(bytes: usize, mut read: Reader<'_>) -> Side<'_> {
    Box::new(move || {
        let start = Instant::now();
        let count = read()?;
        let took = start.elapsed().as_nanos() as f64;
        ensure!(count == bytes, "{count} bytes were read, {bytes} were sent");
        Ok(took / FRAMES as f64)
    })
}

/// Frames, and where reads of them end.
#[derive(Clone, Copy, Debug)]
struct Stream<'a> {
    bytes: &'a [u8],
    cuts: &'a [usize],
}

/// An endless connection: the stream again and again. What is written to it is thrown away.
#[derive(Debug)]
struct Tape<'a> {
    stream: Stream<'a>,
    at: usize,
    /// The cut that the next read ends at.
    cut: usize,
}

impl<'a> Tape<'a> {
    fn new(stream: Stream<'a>) -> Self {
        Self { stream, at: 0, cut: 0 }
    }

    fn next(&mut self, longest: usize) -> &'a [u8] {
        if self.cut == self.stream.cuts.len() {
            (self.at, self.cut) = (0, 0);
        }
        let end = self.stream.cuts[self.cut];
        let piece = &self.stream.bytes[self.at..end.min(self.at + longest)];
        self.at += piece.len();
        self.cut += usize::from(self.at == end);
        piece
    }
}

impl Read for Tape<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.next(buffer.len());
        buffer[..piece.len()].copy_from_slice(piece);
        Ok(piece.len())
    }
}

impl Write for Tape<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Tape<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let piece = self.next(buffer.remaining());
        buffer.put_slice(piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tape<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Reads the turn's frames and returns their bytes.
type Reader<'a> = Box<dyn FnMut() -> anyhow::Result<usize> + 'a>;

#[derive(Default)]
struct Count {
    frames: usize,
    bytes: usize,
}

fn decode(decoder: &mut Decoder, mut piece: &[u8], read: &mut Count) -> anyhow::Result<()> {
    while !piece.is_empty() {
        let Some(incoming) = decoder.next(&mut piece)? else { break };
        let Incoming::Text(text) = incoming else { bail!("{incoming:?} was not sent") };
        read.frames += 1;
        read.bytes += black_box(text).len();
    }
    Ok(())
}

fn ours(stream: Stream<'_>, utf8: Utf8) -> Reader<'_> {
    let mut tape = Tape::new(stream);
    let mut decoder = Decoder::new(Limits { utf8, ..Limits::default() });
    let mut buffer = vec![0; LONGEST];
    Box::new(move || {
        let mut read = Count::default();
        // The turn's end is the stream's and so a frame's: nothing is left over for the next.
        while read.frames < FRAMES {
            let length = tape.read(&mut buffer)?;
            decode(&mut decoder, &buffer[..length], &mut read)?;
        }
        Ok(read.bytes)
    })
}

/// As behind our TLS: records are decrypted where they were received.
fn ours_in_place(stream: Stream<'_>) -> Reader<'_> {
    let mut tape = Tape::new(stream);
    let mut decoder = Decoder::new(Limits { utf8: Utf8::Trust, ..Limits::default() });
    Box::new(move || {
        let mut read = Count::default();
        while read.frames < FRAMES {
            decode(&mut decoder, tape.next(LONGEST), &mut read)?;
        }
        Ok(read.bytes)
    })
}

fn tungstenite(stream: Stream<'_>, buffer: usize) -> Reader<'_> {
    let config = WebSocketConfig::default().read_buffer_size(buffer);
    let mut socket = WebSocket::from_raw_socket(Tape::new(stream), Role::Client, Some(config));
    Box::new(move || {
        let mut bytes = 0;
        for _ in 0..FRAMES {
            bytes += black_box(socket.read()?).len();
        }
        Ok(bytes)
    })
}

fn fast_socket(stream: Stream<'_>) -> FastWebSocket<Tape<'_>> {
    let tape = Tape::new(stream);
    let mut socket = FastWebSocket::after_handshake(tape, fastwebsockets::Role::Client);
    socket.set_writev(false);
    socket.set_auto_close(true);
    socket.set_auto_pong(true);
    socket
}

fn fast_frames<'a>(stream: Stream<'a>, runtime: &'a Runtime) -> Reader<'a> {
    let mut socket = fast_socket(stream);
    Box::new(move || {
        runtime.block_on(async {
            let mut bytes = 0;
            for _ in 0..FRAMES {
                bytes += black_box(socket.read_frame().await?).payload.len();
            }
            Ok(bytes)
        })
    })
}

fn fast_messages<'a>(stream: Stream<'a>, runtime: &'a Runtime) -> Reader<'a> {
    let mut socket = FragmentCollector::new(fast_socket(stream));
    Box::new(move || {
        runtime.block_on(async {
            let mut bytes = 0;
            for _ in 0..FRAMES {
                bytes += black_box(socket.read_frame().await?).payload.len();
            }
            Ok(bytes)
        })
    })
}
