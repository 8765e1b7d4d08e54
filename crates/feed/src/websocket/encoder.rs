//! Frames to send, written into the caller's memory.

use super::head::{FIN, MASKED};
use super::{CONTROL_LIMIT, Opcode, mask as apply};

/// Appends a whole message or control frame to `out`.
///
/// A client must pass a mask that the other end cannot foresee, a server none (RFC 6455, 5.1, 5.3,
/// 10.3). Of a control frame's payload only the first 125 bytes are sent: more is forbidden (5.5).
pub fn encode(opcode: Opcode, payload: &[u8], mask: impl Into<Option<[u8; 4]>>, out: &mut Vec<u8>) {
    let longest = if opcode.is_control() { CONTROL_LIMIT } else { usize::MAX };
    frame(FIN, opcode, &[&payload[..payload.len().min(longest)]], mask.into(), out);
}

/// Appends a part of a message: the first with the message's opcode, the others with
/// [`Opcode::Continuation`], the last with `fin` (RFC 6455, 5.4). Not for control frames.
pub fn encode_fragment(
    fin: bool,
    opcode: Opcode,
    payload: &[u8],
    mask: impl Into<Option<[u8; 4]>>,
    out: &mut Vec<u8>,
) {
    frame(if fin { FIN } else { 0 }, opcode, &[payload], mask.into(), out);
}

/// Appends a close frame. Of the reason as much is sent as fits, 123 bytes (RFC 6455, 5.5.1).
/// Without a code there is no reason either.
pub fn encode_close(
    code: Option<u16>,
    reason: &str,
    mask: impl Into<Option<[u8; 4]>>,
    out: &mut Vec<u8>,
) {
    let Some(code) = code else { return encode(Opcode::Close, &[], mask, out) };
    let code = code.to_be_bytes();
    let mut end = reason.len().min(CONTROL_LIMIT - code.len());
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    frame(FIN, Opcode::Close, &[&code, &reason.as_bytes()[..end]], mask.into(), out);
}

/// A frame whose payload is the `parts`, one after the other.
fn frame(fin: u8, opcode: Opcode, parts: &[&[u8]], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let masked = if mask.is_some() { MASKED } else { 0 };
    out.push(fin | opcode as u8);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..126), _) => out.push(masked | short),
        (_, Ok(medium)) => {
            out.push(masked | 126);
            out.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            out.push(masked | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(mask.as_ref().map_or(&[], |mask| mask.as_slice()));
    let start = out.len();
    parts.iter().for_each(|part| out.extend_from_slice(part));
    if let Some(mask) = mask {
        apply(&mut out[start..], mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
        let mut out = Vec::new();
        encode(opcode, payload, mask, &mut out);
        out
    }

    #[test]
    fn the_rfcs_examples_come_out_byte_for_byte() {
        // RFC 6455, 5.7.
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(encoded(Opcode::Text, b"Hello", None), b"\x81\x05Hello");
        assert_eq!(encoded(Opcode::Text, b"Hello", Some(mask)), masked);
        assert_eq!(encoded(Opcode::Ping, b"Hello", None), b"\x89\x05Hello");
        assert_eq!(encoded(Opcode::Binary, &[0; 256], None)[..4], [0x82, 0x7e, 1, 0]);
        assert_eq!(
            encoded(Opcode::Binary, &[0; 65_536], None)[..10],
            [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]
        );
        let mut out = Vec::new();
        encode_fragment(false, Opcode::Text, b"Hel", None, &mut out);
        encode_fragment(true, Opcode::Continuation, b"lo", None, &mut out);
        assert_eq!(out, b"\x01\x03Hel\x80\x02lo");
    }

    #[test]
    fn lengths_take_the_fewest_bytes() {
        for (length, head) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10), (70_000, 10)]
        {
            assert_eq!(encoded(Opcode::Text, &vec![b'x'; length], None).len(), head + length);
            let masked = encoded(Opcode::Text, &vec![b'x'; length], Some([1; 4]));
            assert_eq!(masked.len(), head + 4 + length);
        }
    }

    #[test]
    fn control_frames_never_exceed_what_is_allowed() {
        assert_eq!(encoded(Opcode::Ping, &[7; 200], None)[1], 125);
        let mut out = Vec::new();
        // The 123rd byte is within a character of two bytes, which is left out whole.
        encode_close(Some(1000), &"é".repeat(100), None, &mut out);
        assert_eq!(out[..4], [0x88, 124, 0x03, 0xe8]);
        assert_eq!(std::str::from_utf8(&out[4..]), Ok("é".repeat(61).as_str()));
        out.clear();
        encode_close(None, "not sent", None, &mut out);
        assert_eq!(out, [0x88, 0]);
    }
}
