//! tungstenite and fastwebsockets read what we write, we read what they write, and where tungstenite
//! refuses a stream we do, too.

use std::io::{self, Cursor, Read, Write};

use fastwebsockets::{FragmentCollector, OpCode, WebSocket as FastWebSocket};
use proptest::collection::vec;
use proptest::prelude::*;
use quietcore_feed::websocket::{
    Decoder, Limits, Opcode, ProtocolError, Role, encode, encode_close, encode_fragment,
};
use tungstenite::error::ProtocolError as TheirError;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode as TheirOpcode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::protocol::{Role as TheirRole, WebSocketConfig};
use tungstenite::{Bytes, Error, Message, WebSocket};

use super::{Event, LIMITS, decode, read};

/// What one end sends: messages in fragments, control frames before each of them.
#[derive(Clone, Debug)]
enum Sent {
    Text(Vec<String>),
    Binary(Vec<Vec<u8>>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

impl Sent {
    fn event(&self) -> Event {
        match self {
            Self::Text(parts) => Event::Text(parts.concat().into_bytes()),
            Self::Binary(parts) => Event::Binary(parts.concat()),
            Self::Ping(payload) => Event::Ping(payload.clone()),
            Self::Pong(payload) => Event::Pong(payload.clone()),
        }
    }

    /// Every frame: whether it is the last, what it is, and its payload.
    fn frames(&self) -> Vec<(bool, Opcode, Vec<u8>)> {
        let fragments = |first: Opcode, parts: Vec<Vec<u8>>| {
            let last = parts.len() - 1;
            let part = |(index, part): (usize, Vec<u8>)| {
                (index == last, if index == 0 { first } else { Opcode::Continuation }, part)
            };
            parts.into_iter().enumerate().map(part).collect()
        };
        match self {
            Self::Text(parts) => {
                fragments(Opcode::Text, parts.iter().map(|part| part.clone().into()).collect())
            }
            Self::Binary(parts) => fragments(Opcode::Binary, parts.clone()),
            Self::Ping(payload) => vec![(true, Opcode::Ping, payload.clone())],
            Self::Pong(payload) => vec![(true, Opcode::Pong, payload.clone())],
        }
    }
}

/// Lengths on both sides of where the way of writing them changes, mostly short.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..40, 4 => 120usize..132, 2 => 0usize..3_000, 1 => 65_530usize..65_541]
}

fn text() -> impl Strategy<Value = String> {
    let short = vec(any::<char>(), 0..40).prop_map(String::from_iter);
    prop_oneof![short, length().prop_map(|length| "*".repeat(length))]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), length()).prop_map(|(byte, length)| vec![byte; length])
}

fn control() -> impl Strategy<Value = Sent> {
    let payload = || vec(any::<u8>(), 0..=125);
    prop_oneof![payload().prop_map(Sent::Ping), payload().prop_map(Sent::Pong)]
}

/// Messages that fit the limit, some in fragments.
fn message() -> impl Strategy<Value = Sent> {
    let fits = |sent: &Sent| match sent.event() {
        Event::Text(bytes) | Event::Binary(bytes) => bytes.len() <= LIMITS.message,
        _ => true,
    };
    let message = prop_oneof![
        2 => vec(text(), 1..2).prop_map(Sent::Text),
        2 => vec(text(), 2..5).prop_map(Sent::Text),
        1 => vec(bytes(), 1..2).prop_map(Sent::Binary),
        1 => vec(bytes(), 2..5).prop_map(Sent::Binary),
    ];
    message.prop_filter("longer than the limit", fits)
}

/// Frames in the order in which they are sent, and the events that follow from them.
#[derive(Clone, Debug)]
struct Conversation {
    frames: Vec<(bool, Opcode, Vec<u8>)>,
    events: Vec<Event>,
}

/// Control frames stand between the fragments of the messages, too.
fn conversation() -> impl Strategy<Value = Conversation> {
    let between = vec(proptest::option::weighted(0.3, control()), 4);
    vec((message(), between), 1..8).prop_map(|messages| {
        let mut all = Conversation { frames: Vec::new(), events: Vec::new() };
        for (message, mut between) in messages {
            for frame in message.frames() {
                if let Some(Some(control)) = between.pop() {
                    all.frames.extend(control.frames());
                    all.events.push(control.event());
                }
                all.frames.push(frame);
            }
            all.events.push(message.event());
        }
        all
    })
}

/// A connection's end: what is read from it was there before, what is written to it is kept.
#[derive(Debug, Default)]
struct Wire {
    input: Cursor<Vec<u8>>,
    output: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The frames as tungstenite writes them.
fn by_tungstenite(conversation: &Conversation, role: TheirRole) -> Vec<u8> {
    let mut socket = WebSocket::from_raw_socket(Wire::default(), role, None);
    for (fin, opcode, payload) in conversation.frames.clone() {
        let payload = Bytes::from(payload);
        let message = match opcode {
            Opcode::Ping => Message::Ping(payload),
            Opcode::Pong => Message::Pong(payload),
            _ => {
                let data = match opcode {
                    Opcode::Text => Data::Text,
                    Opcode::Binary => Data::Binary,
                    _ => Data::Continue,
                };
                Message::Frame(Frame::message(payload, TheirOpcode::Data(data), fin))
            }
        };
        socket.send(message).expect("valid frames");
    }
    let frame = CloseFrame { code: CloseCode::Away, reason: "bye".into() };
    socket.close(Some(frame)).expect("a valid close");
    socket.into_inner().output
}

/// The frames as we write them, the client's masks all different.
fn by_us(conversation: &Conversation, role: Role) -> Vec<u8> {
    let mut out = Vec::new();
    let mut seed = 0x9e37_79b9u32;
    let mut mask = || {
        seed = seed.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        (role == Role::Client).then(|| seed.to_be_bytes())
    };
    for (fin, opcode, payload) in &conversation.frames {
        if *fin && *opcode != Opcode::Continuation {
            encode(*opcode, payload, mask(), &mut out);
        } else {
            encode_fragment(*fin, *opcode, payload, mask(), &mut out);
        }
    }
    encode_close(Some(1001), "bye", mask(), &mut out);
    out
}

fn with_close(events: &[Event]) -> Vec<Event> {
    [events, &[Event::Close(Some(1001), b"bye".to_vec())]].concat()
}

/// What tungstenite reads, up to a close, an error or the end of the bytes.
fn read_by_tungstenite(
    bytes: &[u8],
    role: TheirRole,
    limits: Limits,
) -> (Vec<Event>, Option<Error>) {
    let config = WebSocketConfig::default()
        .read_buffer_size(1 << 10)
        .max_message_size(Some(limits.message))
        .max_frame_size(Some(limits.message));
    let wire = Wire { input: Cursor::new(bytes.to_vec()), output: Vec::new() };
    let mut socket = WebSocket::from_raw_socket(wire, role, Some(config));
    let mut events = Vec::new();
    loop {
        let event = match socket.read() {
            Ok(Message::Text(text)) => Event::Text(text.as_bytes().to_vec()),
            Ok(Message::Binary(bytes)) => Event::Binary(bytes.to_vec()),
            Ok(Message::Ping(bytes)) => Event::Ping(bytes.to_vec()),
            Ok(Message::Pong(bytes)) => Event::Pong(bytes.to_vec()),
            Ok(Message::Close(frame)) => {
                let close = frame.map(|frame| (frame.code.into(), frame.reason));
                let (code, reason) = close.map_or((None, vec![]), |(code, reason)| {
                    (Some(code), reason.as_bytes().to_vec())
                });
                events.push(Event::Close(code, reason));
                return (events, None);
            }
            Ok(Message::Frame(frame)) => panic!("a raw frame: {frame}"),
            Err(Error::Protocol(TheirError::ResetWithoutClosingHandshake)) => {
                return (events, None);
            }
            Err(error) => return (events, Some(error)),
        };
        events.push(event);
    }
}

/// What fastwebsockets reads, up to a close. Pings come to us, not back.
fn read_by_fastwebsockets(bytes: &[u8], role: fastwebsockets::Role) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let wire = tokio::io::join(bytes, tokio::io::sink());
        let mut socket = FastWebSocket::after_handshake(wire, role);
        socket.set_auto_pong(false);
        let mut socket = FragmentCollector::new(socket);
        let mut events = Vec::new();
        loop {
            let frame = socket.read_frame().await.expect("a valid stream");
            let payload = frame.payload.to_vec();
            events.push(match frame.opcode {
                OpCode::Text => Event::Text(payload),
                OpCode::Binary => Event::Binary(payload),
                OpCode::Ping => Event::Ping(payload),
                OpCode::Pong => Event::Pong(payload),
                OpCode::Close => {
                    let code = u16::from_be_bytes([payload[0], payload[1]]);
                    events.push(Event::Close(Some(code), payload[2..].to_vec()));
                    return events;
                }
                OpCode::Continuation => panic!("a fragment"),
            });
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_tungstenite_sends_we_read_however_it_is_cut(
        sent in conversation(),
        sizes in vec(1usize..300, 1..50),
    ) {
        let expected = (with_close(&sent.events), None);
        for (theirs, ours) in [(TheirRole::Server, Role::Client), (TheirRole::Client, Role::Server)] {
            let bytes = by_tungstenite(&sent, theirs);
            for sizes in [&sizes[..], &[], &[1], &[2], &[3], &[7], &[4096]] {
                prop_assert_eq!(&decode(ours, &bytes, sizes), &expected);
            }
        }
    }

    #[test]
    fn what_we_send_tungstenite_and_fastwebsockets_read(sent in conversation()) {
        let expected = with_close(&sent.events);
        let from_client = by_us(&sent, Role::Client);
        let (events, error) = read_by_tungstenite(&from_client, TheirRole::Server, LIMITS);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(&events, &expected);
        prop_assert_eq!(&read_by_fastwebsockets(&from_client, fastwebsockets::Role::Server), &expected);

        let from_server = by_us(&sent, Role::Server);
        prop_assert_eq!(&from_server, &by_tungstenite(&sent, TheirRole::Server));
        prop_assert_eq!(&read_by_fastwebsockets(&from_server, fastwebsockets::Role::Client), &expected);
    }
}

/// Damage to a stream: at which part of it, what.
#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Set(prop::sample::Index, Vec<u8>),
    Drop(prop::sample::Index),
    Cut(prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => (at(), 0u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        2 => (at(), vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Damage::Set(at, bytes)),
        1 => at().prop_map(Damage::Drop),
        1 => at().prop_map(Damage::Cut),
    ]
}

fn damaged(mut bytes: Vec<u8>, damage: &[Damage]) -> Vec<u8> {
    for damage in damage {
        let length = bytes.len();
        if length == 0 {
            break;
        }
        match damage {
            Damage::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Damage::Set(at, new) => {
                let at = at.index(length);
                let end = length.min(at + new.len());
                bytes.splice(at..end, new.iter().copied()).for_each(drop);
            }
            Damage::Drop(at) => drop(bytes.remove(at.index(length))),
            Damage::Cut(at) => bytes.truncate(at.index(length)),
        }
    }
    bytes
}

/// Frames short enough for damage to hit their heads.
fn short_frames() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        4 => Just(Opcode::Text),
        2 => Just(Opcode::Binary),
        3 => Just(Opcode::Continuation),
        1 => Just(Opcode::Ping),
        1 => Just(Opcode::Pong),
    ];
    let payload = prop_oneof![
        3 => vec(any::<char>(), 0..6).prop_map(|text| String::from_iter(text).into_bytes()),
        1 => vec(any::<u8>(), 0..6),
    ];
    let frame = (prop::bool::weighted(0.8), opcode, payload);
    let close = (prop_oneof![990u16..1020, 2990u16..5010, any::<u16>()], vec(any::<u8>(), 0..3));
    (vec(frame, 0..8), proptest::option::of(close)).prop_map(|(frames, close)| {
        let mut bytes = Vec::new();
        for (fin, opcode, payload) in frames {
            encode_fragment(fin || opcode.is_control(), opcode, &payload, None, &mut bytes);
        }
        if let Some((code, reason)) = close {
            let payload = [&code.to_be_bytes()[..], &reason].concat();
            encode(Opcode::Close, &payload, None, &mut bytes);
        }
        bytes
    })
}

/// Where we differ from tungstenite on purpose:
///
/// - it takes lengths that are not written in the fewest bytes (RFC 6455, 5.2: must);
/// - it looks at a head only when it has come whole with its payload, we as early as we can;
/// - it hands on a close with a code that no frame may carry as a close of code 1002, and so a
///   close of 1014, which was registered after the RFC; we refuse the former and take the latter;
/// - a length with its highest bit set is too long for it, for us also wrong in itself.
fn compare(bytes: &[u8], sizes: &[usize]) -> Result<(), TestCaseError> {
    let limits = Limits { message: 500, buffer: 100, ..LIMITS };
    let (ours, our_error) = read(Decoder::new(limits), bytes, sizes);
    let (mut theirs, their_error) = read_by_tungstenite(bytes, TheirRole::Client, limits);
    if theirs.last() == Some(&Event::Close(Some(1002), b"Protocol violation".to_vec())) {
        let is_1014 = matches!(ours.last(), Some(Event::Close(Some(1014), _)));
        let is_refused = matches!(
            our_error,
            Some(ProtocolError::CloseCode(_) | ProtocolError::LengthNotMinimal)
        );
        let is_same = ours.last() == theirs.last();
        prop_assert!(is_1014 || is_refused || is_same, "{ours:?} {our_error:?}");
        theirs.pop();
        prop_assert!(theirs.starts_with(&ours[..ours.len() - usize::from(is_1014 || is_same)]));
        return Ok(());
    }
    match (our_error, their_error) {
        (None, None) => prop_assert_eq!(ours, theirs),
        (None, Some(error)) => prop_assert!(false, "they refuse ({error}), we read {ours:?}"),
        (Some(ProtocolError::LengthNotMinimal), _) => prop_assert!(theirs.starts_with(&ours)),
        (Some(_), Some(_)) => prop_assert_eq!(ours, theirs),
        (Some(error), None) => {
            // Given the rest of the frame they must refuse it, too. What is appended is pongs,
            // whichever of the two begins a frame.
            prop_assert_eq!(&ours, &theirs);
            let refused = [0, 1].map(|start| {
                let pongs = [0x8a, 0].into_iter().cycle().skip(start).take(limits.message + 100);
                let longer = bytes.iter().copied().chain(pongs).collect::<Vec<_>>();
                read_by_tungstenite(&longer, TheirRole::Client, limits).1.is_some()
            });
            prop_assert_eq!(refused, [true; 2], "only we refuse: {}", error);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn damaged_streams_are_refused_where_tungstenite_refuses_them(
        bytes in short_frames(),
        damages in vec(damage(), 0..4),
        size in 1usize..20,
    ) {
        compare(&damaged(bytes, &damages), &[size])?;
    }

    #[test]
    fn garbage_is_refused_where_tungstenite_refuses_it(
        bytes in vec(prop_oneof![any::<u8>(), 0u8..12, 0x80u8..0x8c], 0..40),
        size in 1usize..20,
    ) {
        compare(&bytes, &[size])?;
    }
}
