//! RFC 6455's rules, one table each, in the order of the Autobahn test suite's chapters. Each case
//! is decoded in one piece, in pieces of every size up to 16, and cut in two at every byte.

use quietcore_feed::websocket::{Decoder, Incoming, Limits, ProtocolError, Role, Utf8};

use super::{Event, LIMITS, Read, decode};

/// What is read, the same however the stream is cut.
fn uncut(bytes: &[u8]) -> Read {
    let whole = decode(Role::Client, bytes, &[]);
    for size in 1..=16 {
        assert_eq!(decode(Role::Client, bytes, &[size]), whole, "pieces of {size}");
    }
    for cut in 1..bytes.len().min(400) {
        assert_eq!(decode(Role::Client, bytes, &[cut, usize::MAX]), whole, "cut at {cut}");
    }
    whole
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(length as u8),
        length @ 126..65_536 => {
            bytes.push(126);
            bytes.extend((length as u16).to_be_bytes());
        }
        length => {
            bytes.push(127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend(payload);
    bytes
}

fn good(bytes: &[u8]) -> Vec<Event> {
    let (events, error) = uncut(bytes);
    assert_eq!(error, None);
    events
}

/// The error, after a message before it that must arrive, and the code to close with.
fn bad(bytes: &[u8]) -> (ProtocolError, u16) {
    let (events, error) = uncut(&[&frame(0x81, b"before"), bytes].concat());
    assert_eq!(events[0], Event::Text(b"before".to_vec()));
    let error = error.unwrap_or_else(|| panic!("{bytes:x?} is taken: {events:x?}"));
    (error, error.close_code())
}

#[test]
fn chapter_1_and_9_messages_of_every_way_of_writing_a_length() {
    for length in [0, 1, 125, 126, 127, 128, 1_000, 65_535, 65_536, 70_000] {
        let payload = vec![b'*'; length];
        assert_eq!(good(&frame(0x81, &payload)), [Event::Text(payload.clone())]);
        assert_eq!(good(&frame(0x82, &payload)), [Event::Binary(payload)]);
    }
    let several = [frame(0x81, b"a"), frame(0x82, b""), frame(0x81, &[b'b'; 300])].concat();
    assert_eq!(good(&several).len(), 3);
}

#[test]
fn chapter_2_pings_and_pongs() {
    let most = [0xfe; 125];
    assert_eq!(good(&frame(0x89, b"")), [Event::Ping(vec![])]);
    assert_eq!(good(&frame(0x89, &most)), [Event::Ping(most.to_vec())]);
    assert_eq!(good(&frame(0x8a, b"unasked")), [Event::Pong(b"unasked".to_vec())]);
    let ten: Vec<u8> = (0..10).flat_map(|n| frame(0x89, &[n])).collect();
    assert_eq!(good(&ten), (0..10).map(|n| Event::Ping(vec![n])).collect::<Vec<_>>());
}

#[test]
fn chapter_2_to_5_what_a_head_may_not_say() {
    use ProtocolError::{
        FragmentedControl, LengthNotMinimal, LengthTopBit, LongControl, Masked, ReservedBits,
        ReservedOpcode,
    };
    let eight = |length: u64| [&[0x82, 127], &length.to_be_bytes()[..]].concat();
    let mut table = vec![
        ("a ping of 126 bytes", frame(0x89, &[0; 126]), LongControl),
        ("a pong of 65,536 bytes", frame(0x8a, &[0; 65_536]), LongControl),
        ("a close of 126 bytes", frame(0x88, &[0; 126]), LongControl),
        ("a fragmented ping", frame(0x09, b"x"), FragmentedControl),
        ("a fragmented pong", frame(0x0a, b""), FragmentedControl),
        ("a fragmented close", frame(0x08, b""), FragmentedControl),
        ("a masked message", b"\x81\x81\0\0\0\0x".to_vec(), Masked),
        ("a masked ping", b"\x89\x80\0\0\0\0".to_vec(), Masked),
        ("a masked message of 64 bits", b"\x82\xff".to_vec(), Masked),
        (
            "125 written in 16 bits",
            [&[0x81, 126, 0, 125], &[b'x'; 125][..]].concat(),
            LengthNotMinimal,
        ),
        ("0 written in 16 bits", vec![0x81, 126, 0, 0], LengthNotMinimal),
        ("65,535 written in 64 bits", eight(65_535), LengthNotMinimal),
        ("0 written in 64 bits", eight(0), LengthNotMinimal),
        ("a negative length", eight(1 << 63), LengthTopBit),
        ("the largest length", eight(u64::MAX), LengthTopBit),
    ];
    for bits in 1..=7u8 {
        for opcode in [0, 1, 2, 8, 9, 10] {
            table.push(("reserved bits", frame(0x80 | bits << 4 | opcode, b""), ReservedBits));
        }
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        table.push(("a reserved opcode", frame(0x80 | opcode, b"x"), ReservedOpcode(opcode)));
        table.push(("a reserved opcode, begun", frame(opcode, b""), ReservedOpcode(opcode)));
    }
    for (name, bytes, error) in table {
        assert_eq!(bad(&bytes), (error, 1002), "{name}");
    }
}

#[test]
fn chapter_5_fragments() {
    let text = |parts: &[&[u8]]| {
        let mut bytes = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let fin = if index + 1 == parts.len() { 0x80 } else { 0 };
            bytes.push(frame(fin | u8::from(index == 0), part));
        }
        bytes
    };
    let whole = vec![Event::Text(b"fragment1fragment2".to_vec())];
    assert_eq!(good(&text(&[b"fragment1", b"fragment2"]).concat()), whole);
    assert_eq!(good(&text(&[b"", b"fragment1", b"", b"fragment2", b""]).concat()), whole);
    assert_eq!(good(&text(&[b"", b"", b""]).concat()), [Event::Text(vec![])]);
    let binary = [frame(0x02, &[0xff]), frame(0x00, &[0xfe; 200]), frame(0x80, b"")].concat();
    assert_eq!(good(&binary), [Event::Binary([&[0xff][..], &[0xfe; 200]].concat())]);

    // Control frames between fragments come first; the message stays as it is.
    let mut parts = text(&[b"fragment1", b"fragment2"]);
    parts.insert(1, [frame(0x89, b"ping"), frame(0x8a, &[1; 125])].concat());
    parts.push(frame(0x81, b"next"));
    let [ping, pong] = [Event::Ping(b"ping".to_vec()), Event::Pong(vec![1; 125])];
    let next = Event::Text(b"next".to_vec());
    assert_eq!(good(&parts.concat()), [ping, pong, whole[0].clone(), next]);
    // A close between fragments ends everything.
    let closed = [frame(0x01, b"x"), frame(0x88, b""), frame(0x80, b"y")].concat();
    assert_eq!(good(&closed), [Event::Close(None, vec![])]);
}

#[test]
fn chapter_5_fragments_out_of_order() {
    use ProtocolError::{MessageNotEnded, NothingToContinue};
    let table = [
        ("a last fragment of nothing", vec![frame(0x80, b"x")], NothingToContinue),
        ("a fragment of nothing", vec![frame(0x00, b"")], NothingToContinue),
        (
            "a fragment after the last",
            vec![frame(0x01, b"a"), frame(0x80, b"b"), frame(0x80, b"c")],
            NothingToContinue,
        ),
        ("text in text", vec![frame(0x01, b"a"), frame(0x81, b"b")], MessageNotEnded),
        ("text in binary", vec![frame(0x02, b"a"), frame(0x01, b"b")], MessageNotEnded),
        (
            "binary in text, after a ping",
            vec![frame(0x01, b"a"), frame(0x89, b""), frame(0x82, b"b")],
            MessageNotEnded,
        ),
    ];
    for (name, frames, error) in table {
        assert_eq!(bad(&frames.concat()), (error, 1002), "{name}");
    }
}

/// From Markus Kuhn's list of what decoders get wrong, as Autobahn's chapter 6 has it.
const NOT_UTF8: [&[u8]; 14] = [
    b"\x80",
    b"\xbf ",
    b"\xc0\xaf",
    b"\xc1\xbf",
    b"\xc2",
    b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
    b"\xe0\x80\xaf",
    b"\xe2\x82",
    b"\xed\xbf\xbf",
    b"\xf0\x80\x80\xaf",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xff",
];

#[test]
fn chapter_6_text_is_utf8() {
    for bytes in NOT_UTF8 {
        let later = [&[b'x'; 200], bytes].concat();
        for text in [bytes, &later] {
            assert_eq!(bad(&frame(0x81, text)), (ProtocolError::TextNotUtf8, 1007), "{text:x?}");
            let halves = text.split_at(text.len() / 2);
            let frames = [frame(0x01, halves.0), frame(0x80, halves.1)].concat();
            assert_eq!(bad(&frames), (ProtocolError::TextNotUtf8, 1007), "{text:x?}");
            assert_eq!(good(&frame(0x82, text)), [Event::Binary(text.to_vec())]);
        }
    }
    let text = "Hello-µ@ßöäüàá-UTF-8!! κόσμε \u{10ffff}\u{ffff}\u{0}";
    assert_eq!(good(&frame(0x81, text.as_bytes())), [Event::Text(text.into())]);
    for cut in 0..=text.len() {
        let (a, b) = text.as_bytes().split_at(cut);
        let frames = [frame(0x01, a), frame(0x89, b""), frame(0x00, b""), frame(0x80, b)];
        let events = good(&frames.concat());
        assert_eq!(events, [Event::Ping(vec![]), Event::Text(text.into())], "cut at {cut}");
    }
    // What can never become UTF-8 is refused at the end of its fragment.
    let endless = [frame(0x01, b"\xce\xba\xed\xa0"), frame(0x00, b"x")].concat();
    assert_eq!(bad(&endless).1, 1007);
}

#[test]
fn text_that_is_trusted_is_handed_on_as_it_is() {
    for bytes in NOT_UTF8 {
        let mut decoder = Decoder::new(Limits { utf8: Utf8::Trust, ..LIMITS });
        let stream = [frame(0x81, bytes), frame(0x01, bytes), frame(0x80, bytes)].concat();
        let mut stream = &stream[..];
        assert_eq!(decoder.next(&mut stream), Ok(Some(Incoming::Text(bytes))));
        let twice = bytes.repeat(2);
        assert_eq!(decoder.next(&mut stream), Ok(Some(Incoming::Text(&twice))));
        let close = frame(0x88, &[b"\x03\xe8", bytes].concat());
        assert_eq!(decoder.next(&mut &close[..]), Err(ProtocolError::ReasonNotUtf8));
    }
}

#[test]
fn chapter_7_closing() {
    let close = |code: u16, reason: &[u8]| frame(0x88, &[&code.to_be_bytes(), reason].concat());
    assert_eq!(good(&frame(0x88, b"")), [Event::Close(None, vec![])]);
    assert_eq!(bad(&frame(0x88, b"\x03")), (ProtocolError::CloseOfOneByte, 1002));
    let valid = [1000..=1003, 1007..=1014, 3000..=3003, 3999..=4001, 4999..=4999];
    for code in valid.into_iter().flatten() {
        let reason = [b'r'; 123];
        assert_eq!(good(&close(code, &reason)), [Event::Close(Some(code), reason.to_vec())]);
    }
    let invalid = [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535];
    for code in invalid {
        assert_eq!(bad(&close(code, b"")), (ProtocolError::CloseCode(code), 1002));
    }
    for reason in NOT_UTF8 {
        assert_eq!(bad(&close(1000, reason)), (ProtocolError::ReasonNotUtf8, 1007));
    }
    // Nothing counts after a close, not even nonsense (RFC 6455, 1.4).
    let after = [close(1000, b""), frame(0x81, b"x"), frame(0x89, b""), vec![0xff; 9]].concat();
    assert_eq!(good(&after), [Event::Close(Some(1000), vec![])]);
}

#[test]
fn chapter_9_messages_longer_than_the_limit() {
    let limit = LIMITS.message;
    let too_long = |length: usize| (ProtocolError::TooLong { length: length as u64, limit }, 1009);
    // Said at the head: nothing of it has come.
    assert_eq!(bad(&frame(0x82, &vec![0; limit + 1])[..10]), too_long(limit + 1));
    let huge = [&[0x82, 127], &(u64::MAX >> 1).to_be_bytes()[..]].concat();
    assert_eq!(bad(&huge).1, 1009);
    let fragments = [frame(0x02, &vec![0; limit]), frame(0x00, b""), frame(0x80, b"x")].concat();
    assert_eq!(bad(&fragments), too_long(limit + 1));
    // Control frames between fragments do not count.
    let fits = [frame(0x02, &vec![0; limit - 1]), frame(0x89, &[0; 99]), frame(0x80, b"x")];
    assert_eq!(good(&fits.concat()).len(), 2);
    let mut small = Decoder::new(Limits { message: 100, ..LIMITS });
    let long = frame(0x81, &[b'x'; 101]);
    let error = ProtocolError::TooLong { length: 101, limit: 100 };
    assert_eq!(small.next(&mut &long[..]), Err(error), "short enough to be lent, too");
}

#[test]
fn a_server_wants_masks_and_takes_them_off() {
    // RFC 6455, 5.7.
    let hello = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    let ping = b"\x89\x82\x01\x02\x03\x04\x01\x02";
    let bytes = [&hello[..], ping, b"\x81\x00"].concat();
    let events = vec![Event::Text(b"Hello".to_vec()), Event::Ping(vec![0, 0])];
    for size in 1..=bytes.len() {
        let expected = (events.clone(), Some(ProtocolError::Unmasked));
        assert_eq!(decode(Role::Server, &bytes, &[size]), expected, "pieces of {size}");
    }
}

#[test]
fn a_frame_that_lies_whole_in_the_input_is_lent_from_it() {
    let mut decoder = Decoder::new(LIMITS);
    let stream = [frame(0x81, b"first"), frame(0x82, &[7; 66_000]), frame(0x89, b"p")].concat();
    let bounds = stream.as_ptr_range();
    let mut lent = 0;
    let mut rest = &stream[..];
    // The head of the first comes alone: its payload is lent all the same.
    let mut head = &rest[..1];
    assert_eq!(decoder.next(&mut head), Ok(None));
    rest = &rest[1..];
    while let Some(incoming) = decoder.next(&mut rest).unwrap() {
        let (Incoming::Text(bytes) | Incoming::Binary(bytes) | Incoming::Ping(bytes)) = incoming
        else {
            panic!("{incoming:?}")
        };
        assert!(bounds.contains(&bytes.as_ptr()));
        lent += 1;
    }
    assert_eq!(lent, 3);
}
