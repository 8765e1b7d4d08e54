//! A frame's head: what comes before its payload (RFC 6455, 5.2).

use super::{CONTROL_LIMIT, Opcode, ProtocolError, Role};

/// The most bytes that a head takes: two, a length of eight, a mask of four.
pub(super) const HEAD_LIMIT: usize = 14;

/// The bit of a head's first byte that says: the last frame of its message.
pub(super) const FIN: u8 = 0x80;
/// The bit of a head's second byte that says: masked.
pub(super) const MASKED: u8 = 0x80;
const RESERVED: u8 = 0x70;

/// A frame's head, checked by itself; what came before it is the decoder's to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The last frame of its message.
    pub fin: bool,
    /// What the frame is.
    pub opcode: Opcode,
    /// Bytes of payload.
    pub length: u64,
    /// From a client.
    pub mask: Option<[u8; 4]>,
}

/// Bytes that a head takes, by its second byte.
fn size(second: u8) -> usize {
    let length = match second & !MASKED {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if second & MASKED == 0 { 0 } else { 4 }
}

/// How many bytes the head needs that begins with `bytes`: 2 until its second byte is known.
pub(super) fn needed(bytes: &[u8]) -> usize {
    bytes.get(1).map_or(2, |second| size(*second))
}

impl Head {
    /// The head at the start of `bytes`, and its size; none where bytes are missing. What is wrong
    /// in the first two bytes is said without waiting for the others.
    ///
    /// `role` is ours: from a server we expect no mask, from a client always one.
    pub fn parse(bytes: &[u8], role: Role) -> Result<Option<(Self, usize)>, ProtocolError> {
        let [first, second, ..] = *bytes else { return Ok(None) };
        if first & RESERVED != 0 {
            return Err(ProtocolError::ReservedBits);
        }
        let bits = first & 0x0f;
        let opcode = Opcode::from_bits(bits).ok_or(ProtocolError::ReservedOpcode(bits))?;
        let fin = first & FIN != 0;
        match (role, second & MASKED != 0) {
            (Role::Client, true) => return Err(ProtocolError::Masked),
            (Role::Server, false) => return Err(ProtocolError::Unmasked),
            _ => {}
        }
        if opcode.is_control() {
            if !fin {
                return Err(ProtocolError::FragmentedControl);
            }
            if usize::from(second & !MASKED) > CONTROL_LIMIT {
                return Err(ProtocolError::LongControl);
            }
        }
        let size = size(second);
        let Some(rest) = bytes.get(2..size) else { return Ok(None) };
        let (length, mask) = match (second & !MASKED, rest) {
            (126, [a, b, mask @ ..]) => (minimal(u16::from_be_bytes([*a, *b]).into(), 126)?, mask),
            (127, [a, b, c, d, e, f, g, h, mask @ ..]) => {
                let length = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                if length >> 63 != 0 {
                    return Err(ProtocolError::LengthTopBit);
                }
                (minimal(length, 1 << 16)?, mask)
            }
            (short, mask) => (u64::from(short), mask),
        };
        Ok(Some((Self { fin, opcode, length, mask: mask.try_into().ok() }, size)))
    }
}

/// The length, if it is at least the `least` that needs this way of writing it.
fn minimal(length: u64, least: u64) -> Result<u64, ProtocolError> {
    if length < least { Err(ProtocolError::LengthNotMinimal) } else { Ok(length) }
}
