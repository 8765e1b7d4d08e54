//! What reading a frame costs, beside tungstenite and fastwebsockets over the same bytes.
//!
//! All read one endless stream of text messages of the market's sizes, 4 KiB per read, and take
//! turns within every round, so that a change of the clock or a neighbour hits them alike. Times are
//! those of the median round, ratios are taken within each round and their median shown. Reading is
//! a copy out of memory for all of them; the last rows leave ours out, because behind our TLS there
//! is none: records are decrypted where they were received.
//!
//! The peers are set up as their documentation says. tungstenite: a read buffer of 128 KiB "for high
//! read load" (its default) and one of the reads' size; the better one of each round counts.
//! fastwebsockets: a current-thread tokio runtime, `auto_close` and `auto_pong` on, `writev` off,
//! SIMD for UTF-8, whole messages by `FragmentCollector` and raw frames; the better one counts.
//!
//! `cargo bench -p quietcore-feed --bench websocket`; without `--bench` (as `cargo test --benches`
//! runs it) a round or two show that it still works.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use fastwebsockets::{FragmentCollector, WebSocket as FastWebSocket};
use quietcore_feed::websocket::{Decoder, Incoming, Limits, Opcode, Utf8, encode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;
use tungstenite::WebSocket;
use tungstenite::protocol::{Role, WebSocketConfig};

const READ: usize = 4 << 10;
/// Frames of one turn: some hundred microseconds, mostly over before the scheduler takes the CPU.
const FRAMES: usize = 2_000;
/// Frames of the stream: short enough to stay in the nearest caches, where the bytes are in the
/// engine, too, having just been decrypted.
const STREAM: usize = 100;

/// In a hundred frames six changes of the book, one of them large; the rest are quotes and trades.
fn stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..STREAM {
        let length = match index {
            50 => 13_000,
            7 | 23 | 41 | 68 | 89 => 1_600,
            other => 150 + other * 7 % 60,
        };
        let text = br#"{"e":"bookTicker","u":4711,"b":"61652.80"},"#.repeat(length / 40 + 1);
        encode(Opcode::Text, &text[..length], None, &mut bytes);
    }
    bytes
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

/// Reads the turn's frames and returns their bytes, which must be the same for all.
type Reader<'a> = Box<dyn FnMut() -> usize + 'a>;

fn ours(stream: &[u8], utf8: Utf8) -> Reader<'_> {
    let mut tape = Tape::new(stream);
    let mut decoder = Decoder::new(Limits { utf8, ..Limits::default() });
    let mut buffer = [0; READ];
    Box::new(move || {
        let mut read = Count::default();
        // The turn's end is the stream's and so a frame's: nothing is left over for the next.
        while read.frames < FRAMES {
            let length = tape.read(&mut buffer).unwrap_or_default();
            decode(&mut decoder, &buffer[..length], &mut read);
        }
        read.bytes
    })
}

fn ours_in_place(stream: &[u8], utf8: Utf8) -> Reader<'_> {
    let mut tape = Tape::new(stream);
    let mut decoder = Decoder::new(Limits { utf8, ..Limits::default() });
    Box::new(move || {
        let mut read = Count::default();
        while read.frames < FRAMES {
            decode(&mut decoder, tape.next(READ), &mut read);
        }
        read.bytes
    })
}

#[derive(Default)]
struct Count {
    frames: usize,
    bytes: usize,
}

fn decode(decoder: &mut Decoder, mut piece: &[u8], read: &mut Count) {
    while let Some(incoming) = decoder.next(&mut piece).expect("a valid stream") {
        let Incoming::Text(text) = incoming else { panic!("{incoming:?}") };
        read.frames += 1;
        read.bytes += black_box(text).len();
    }
}

fn tungstenite(stream: &[u8], buffer: usize) -> Reader<'_> {
    let config = WebSocketConfig::default().read_buffer_size(buffer);
    let mut socket = WebSocket::from_raw_socket(Tape::new(stream), Role::Client, Some(config));
    Box::new(move || {
        let text = |_| black_box(socket.read().expect("a valid stream")).len();
        (0..FRAMES).map(text).sum()
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
                let frame = socket.read_frame().await.expect("a valid stream");
                bytes += black_box(frame).payload.len();
            }
            bytes
        })
    })
}

fn fast_messages<'a>(stream: &'a [u8], runtime: &'a Runtime) -> Reader<'a> {
    let mut socket = FragmentCollector::new(fast_socket(stream));
    Box::new(move || {
        runtime.block_on(async {
            let mut bytes = 0;
            for _ in 0..FRAMES {
                let frame = socket.read_frame().await.expect("a valid stream");
                bytes += black_box(frame).payload.len();
            }
            bytes
        })
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 501 } else { 2 };
    let stream = stream();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut readers = [
        ("fastwebsockets, frames", fast_frames(&stream, &runtime)),
        ("fastwebsockets, FragmentCollector", fast_messages(&stream, &runtime)),
        ("tungstenite, 128 KiB buffer", tungstenite(&stream, 128 << 10)),
        ("tungstenite, 4 KiB buffer", tungstenite(&stream, READ)),
        ("ours", ours(&stream, Utf8::Check)),
        ("ours, UTF-8 not checked", ours(&stream, Utf8::Trust)),
        ("ours without the read", ours_in_place(&stream, Utf8::Check)),
        ("ours without the read, not checked", ours_in_place(&stream, Utf8::Trust)),
    ];
    let mut times = vec![[0.0; 8]; rounds];
    for round in &mut times {
        let mut bytes = [0; 8];
        for (index, (_, reader)) in readers.iter_mut().enumerate() {
            let start = Instant::now();
            bytes[index] = reader();
            round[index] = start.elapsed().as_nanos() as f64 / FRAMES as f64;
        }
        assert!(bytes.iter().all(|read| *read == bytes[0]), "all read the same: {bytes:?}");
    }
    println!("{rounds} rounds of {FRAMES} frames, {} bytes each", stream.len() / STREAM);
    println!("{:<36} {:>8} {:>17} {:>14}", "", "ns/frame", "x fastwebsockets", "x tungstenite");
    for (index, (name, _)) in readers.iter().enumerate() {
        println!(
            "{name:<36} {:8.1} {:17.3} {:14.3}",
            median(times.iter().map(|round| round[index])),
            median(times.iter().map(|round| round[index] / round[0].min(round[1]))),
            median(times.iter().map(|round| round[index] / round[2].min(round[3]))),
        );
    }
}
