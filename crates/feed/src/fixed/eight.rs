//! Eight bytes of text in a word, the first in its lowest byte.

const ONES: u64 = 0x0101_0101_0101_0101;
const TOP: u64 = 0x80 * ONES;

/// The eight that start at `at`, if there are eight.
#[inline(always)]
pub(crate) fn load(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// The top bit of every byte that is not a digit.
#[inline(always)]
pub(crate) fn not_digits(text: u64) -> u64 {
    let values = values(text);
    // 9 + 0x76 is the largest sum without the top bit; no sum reaches the next byte.
    ((values & !TOP) + 0x76 * ONES | values) & TOP
}

/// The top bit of the first byte that a string cannot have as it is (its quote, a backslash,
/// a control character, what is not ASCII); above it, any.
#[inline(always)]
pub(crate) fn special(text: u64) -> u64 {
    let is = |byte: u8| {
        let other = text ^ ONES * u64::from(byte);
        other.wrapping_sub(ONES) & !other
    };
    let is_control = text.wrapping_sub(0x20 * ONES) & !text;
    (is(b'"') | is(b'\\') | is_control | text) & TOP
}

/// What the digits are worth.
#[inline(always)]
pub(crate) fn values(text: u64) -> u64 {
    text ^ 0x30 * ONES
}

/// The number that eight digits' values make.
#[inline(always)]
pub(crate) fn number(values: u64) -> u64 {
    // Pairs, then fours and eights at once, each product in the half that counts.
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let upper = (pairs & 0xff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let lower = (pairs >> 16 & 0xff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    upper.wrapping_add(lower) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_at_once_are_as_eight_one_by_one() {
        for byte in 0..=255_u8 {
            for place in 0..8 {
                for around in *b"09a" {
                    let mut text = [around; 8];
                    text[place] = byte;
                    let word = u64::from_le_bytes(text);
                    for (at, byte) in text.iter().enumerate() {
                        let bit = not_digits(word) >> (8 * at) & 0xff;
                        assert_eq!(bit, if byte.is_ascii_digit() { 0 } else { 0x80 }, "{text:?}");
                    }
                    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20 | 0x80..);
                    let first = text.iter().position(is_special).unwrap_or(8);
                    assert_eq!(special(word).trailing_zeros() as usize / 8, first, "{text:?}");
                }
            }
        }
        for expected in [0, 1, 704, 12_345_678, 90_000_009, 99_999_999] {
            let text = format!("{expected:08}");
            let word = load(text.as_bytes(), 0).unwrap();
            assert_eq!(number(values(word)), expected);
        }
    }
}
