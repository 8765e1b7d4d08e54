//! S3: a frame, beside fastwebsockets and tungstenite.
//!
//! All read one endless stream of the market's messages, 4 KiB a read; reading is a copy out of
//! memory for all of them. The peers are set up as their documentation says. tungstenite: a read
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
/// Frames of the stream: short enough to stay in the nearest caches, where the bytes are in the
/// engine, too, having just been decrypted.
const STREAM: usize = 100;
/// Times that a turn reads the stream.
const REPEATS: usize = 5;
const FRAMES: usize = STREAM * REPEATS;

/// Rows for a frame read out of a copy, checked and in place.
pub fn rows(sample: &Sample, rounds: usize) -> anyhow::Result<Vec<Row>> {
    let mut stream = Vec::new();
    let texts = &sample.messages[..STREAM.min(sample.messages.len())];
    texts.iter().for_each(|text| encode(Opcode::Text, text, None, &mut stream));
    ensure!(texts.len() == STREAM, "only {} messages", texts.len());
    let bytes = texts.iter().map(Vec::len).sum::<usize>() * REPEATS;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut sides: [Side<'_>; 7] = [
        timed(bytes, ours(&stream, Utf8::Trust)),
        timed(bytes, ours(&stream, Utf8::Check)),
        timed(bytes, ours_in_place(&stream)),
        timed(bytes, fast_frames(&stream, &runtime)),
        timed(bytes, fast_messages(&stream, &runtime)),
        timed(bytes, tungstenite(&stream, 128 << 10)),
        timed(bytes, tungstenite(&stream, READ)),
    ];
    let times = take_turns(rounds, &mut sides)?;
    let fast = better(&times[3], &times[4]);
    let tungstenite = better(&times[5], &times[6]);
    let row = |what, ours, peer, theirs, target| Row::of(what, ours, peer, theirs, target);
    Ok(vec![
        row("S3 WebSocket", &times[0], "fastwebsockets", &fast, Target::Ratio(0.25)),
        row("S3 WebSocket", &times[0], "tungstenite", &tungstenite, Target::None),
        row("S3 WebSocket, UTF-8 checked", &times[1], "fastwebsockets", &fast, Target::None),
        row("S3 WebSocket, in place", &times[2], "fastwebsockets", &fast, Target::None),
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

/// An endless connection: the stream again and again. What is written to it is thrown away.
#[derive(Debug)]
struct Tape<'a> {
    stream: &'a [u8],
    at: usize,
}

impl<'a> Tape<'a> {
    fn new(stream: &'a [u8]) -> Self {
        Self { stream, at: 0 }
    }

    fn next(&mut self, longest: usize) -> &'a [u8] {
        if self.at == self.stream.len() {
            self.at = 0;
        }
        let piece = &self.stream[self.at..];
        let piece = &piece[..longest.min(READ).min(piece.len())];
        self.at += piece.len();
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
    while let Some(incoming) = decoder.next(&mut piece)? {
        let Incoming::Text(text) = incoming else { bail!("{incoming:?} was not sent") };
        read.frames += 1;
        read.bytes += black_box(text).len();
    }
    Ok(())
}

fn ours(stream: &[u8], utf8: Utf8) -> Reader<'_> {
    let mut tape = Tape::new(stream);
    let mut decoder = Decoder::new(Limits { utf8, ..Limits::default() });
    let mut buffer = [0; READ];
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
fn ours_in_place(stream: &[u8]) -> Reader<'_> {
    let mut tape = Tape::new(stream);
    let mut decoder = Decoder::new(Limits { utf8: Utf8::Trust, ..Limits::default() });
    Box::new(move || {
        let mut read = Count::default();
        while read.frames < FRAMES {
            decode(&mut decoder, tape.next(READ), &mut read)?;
        }
        Ok(read.bytes)
    })
}

fn tungstenite(stream: &[u8], buffer: usize) -> Reader<'_> {
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

fn fast_socket(stream: &[u8]) -> FastWebSocket<Tape<'_>> {
    let tape = Tape::new(stream);
    let mut socket = FastWebSocket::after_handshake(tape, fastwebsockets::Role::Client);
    socket.set_writev(false);
    socket.set_auto_close(true);
    socket.set_auto_pong(true);
    socket
}

fn fast_frames<'a>(stream: &'a [u8], runtime: &'a Runtime) -> Reader<'a> {
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

fn fast_messages<'a>(stream: &'a [u8], runtime: &'a Runtime) -> Reader<'a> {
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
