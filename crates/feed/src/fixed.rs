//! Prices and quantities as whole numbers of 1e-8.

pub(crate) mod eight;

use std::fmt;

/// A price or a quantity: a whole number of 1e-8, and so exact, unlike a float; the largest is
/// 92,233,720,368.54775807. What is finer than that (some spot tokens are priced in 1e-9 and less)
/// cannot be held and is refused, never rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fixed(pub i64);

/// Digits after the point.
const DECIMALS: usize = 8;

/// Digits before the point that, with eight behind it, cannot overflow.
const WHOLE: usize = 10;

/// 10 to the power of the index.
const POWERS: [u64; 16] = {
    let mut powers = [1; 16];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

impl Fixed {
    /// What 1 is.
    pub const ONE: Self = Self(100_000_000);
    /// Nothing: as a quantity, the level is gone.
    pub const ZERO: Self = Self(0);

    /// Reads a decimal number: digits, with or without a sign `-`, a point that has digits on both
    /// sides, and an exponent. The venues write plain decimals; an exponent (`1e-7`) is what some
    /// JSON libraries make of small ones. Zeros in front and behind change nothing.
    ///
    /// `None` is what is not such a number, what is finer than 1e-8, and what is too large.
    pub fn parse(text: &[u8]) -> Option<Self> {
        match plain(text, 0) {
            Some((fixed, end)) if end == text.len() => Some(fixed),
            _ => exact(text),
        }
    }
}

/// Reads the digits, and the point between them, from `at` to the quote that ends them: the form
/// that venues send. Also where that quote is. `None`: another form (a sign, an exponent, more
/// digits than usual) or not a number at all.
#[inline(always)]
pub(crate) fn quoted(bytes: &[u8], at: usize) -> Option<(Fixed, usize)> {
    ended(bytes, at, short(bytes, at))
}

#[inline(always)]
fn short(bytes: &[u8], at: usize) -> Option<(Fixed, usize)> {
    let text = eight::load(bytes, at)?;
    let shape = Shape::of(eight::not_digits(text))?;
    Some((shape.read(text)?, at + shape.end))
}

/// As [`quoted`], for one number of many in a column. `shape` is that of the one before, and
/// becomes this one's. Nearly always they are the same: then the processor knows from the branch
/// alone where this number ends, and starts on the next before it is done with this one.
#[inline(always)]
pub(crate) fn quoted_as(bytes: &[u8], at: usize, shape: &mut Shape) -> Option<(Fixed, usize)> {
    ended(bytes, at, short_as(bytes, at, shape))
}

#[inline(always)]
fn short_as(bytes: &[u8], at: usize, shape: &mut Shape) -> Option<(Fixed, usize)> {
    let text = eight::load(bytes, at)?;
    let others = eight::not_digits(text);
    if others != shape.others {
        *shape = Shape::another(others)?;
    }
    Some((shape.read(text)?, at + shape.end))
}

/// That number, if its quote is where it ends, else the one that is longer or has no point.
#[inline(always)]
fn ended(bytes: &[u8], at: usize, short: Option<(Fixed, usize)>) -> Option<(Fixed, usize)> {
    match short {
        Some((_, end)) if bytes.get(end) == Some(&b'"') => short,
        _ => plain(bytes, at).filter(|(_, end)| bytes.get(*end) == Some(&b'"')),
    }
}

/// Where the point and the end of a number are that is not longer than eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Which of the eight bytes are not digits, as [`eight::not_digits`] says.
    others: u64,
    /// The lowest bit of the point.
    point: u32,
    /// Bytes to the number's end.
    end: usize,
    /// How far the digits, the point left out, are from the end of eight bytes, in bits.
    align: u32,
    /// What the last digit is worth, in units of 1e-8.
    unit: u64,
}

impl Shape {
    /// That of no number.
    pub(crate) const NONE: Self = Self { others: 1, point: 0, end: 0, align: 0, unit: 0 };

    /// At least a digit before the point and one behind it.
    #[inline(always)]
    fn of(others: u64) -> Option<Self> {
        let point = others.trailing_zeros() / 8;
        let end = (others & others.wrapping_sub(1)).trailing_zeros() / 8;
        if point.wrapping_sub(1) >= 6 || end < point + 2 {
            return None;
        }
        let unit = POWERS[(9 + point - end) as usize % POWERS.len()];
        Some(Self { others, point: 8 * point, end: end as usize, align: 8 * (9 - end), unit })
    }

    /// Not inlined, so that it stays a branch.
    #[inline(never)]
    fn another(others: u64) -> Option<Self> {
        Self::of(others)
    }

    /// The number of this shape that eight bytes begin with. Digits may follow it.
    #[inline(always)]
    fn read(&self, text: u64) -> Option<Fixed> {
        if (text >> self.point) as u8 != b'.' {
            return None;
        }
        let digits = eight::values(text);
        let before_point = (1 << self.point) - 1;
        let joined = digits & before_point | digits >> 8 & !before_point;
        Some(Fixed((eight::number(joined << self.align) * self.unit) as i64))
    }
}

/// Any number of the form that venues send, and where it ends.
fn plain(bytes: &[u8], at: usize) -> Option<(Fixed, usize)> {
    let (whole, point) = digits(bytes, at, 0);
    let count = point - at;
    if count.wrapping_sub(1) >= WHOLE {
        return None;
    }
    if bytes.get(point) != Some(&b'.') {
        return Some((Fixed((whole * POWERS[DECIMALS]) as i64), point));
    }
    let (mantissa, end) = digits(bytes, point + 1, whole);
    let decimals = end - point - 1;
    if decimals.wrapping_sub(1) >= DECIMALS {
        return None;
    }
    Some((Fixed((mantissa * POWERS[DECIMALS - decimals]) as i64), end))
}

/// The digits that start at `at`, behind those of `value`, and where they end. More than 19
/// digits wrap: the caller looks at how many there were.
#[inline(always)]
fn digits(bytes: &[u8], mut at: usize, mut value: u64) -> (u64, usize) {
    while let Some(byte) = bytes.get(at) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}

/// The whole number that starts at `at`, and where it ends. More than 19 digits wrap: the caller
/// looks at how many there were.
#[inline(always)]
pub(crate) fn whole(bytes: &[u8], at: usize) -> (u64, usize) {
    match thirteen(bytes, at) {
        Some(value) => (value, at + 13),
        None => of_any_length(bytes, at),
    }
}

/// Thirteen digits, no less and no more: the milliseconds since 1970 from 2001 to 2286, and many
/// of the venues' own numbers. That the length is known beforehand lets the processor go on.
#[inline(always)]
fn thirteen(bytes: &[u8], at: usize) -> Option<u64> {
    let (text, rest) = (eight::load(bytes, at)?, eight::load(bytes, at + 8)?);
    // Of the second eight bytes the sixth is the first that is not a digit.
    let is_thirteen = eight::not_digits(rest) & 0xffff_ffff_ffff == 0x80 << 40;
    if eight::not_digits(text) != 0 || !is_thirteen {
        return None;
    }
    let [text, rest] = [text, rest].map(eight::values);
    Some(eight::number(text) * 100_000 + eight::number(rest << 24))
}

fn of_any_length(bytes: &[u8], mut at: usize) -> (u64, usize) {
    let mut value = 0_u64;
    while let Some(text) = eight::load(bytes, at) {
        let count = eight::not_digits(text).trailing_zeros() / 8;
        // To the end, behind zeros: twice, as one shift cannot be 64.
        let shift = 4 * (8 - count);
        let next = eight::number(eight::values(text) << shift << shift);
        value = value.wrapping_mul(POWERS[count as usize % POWERS.len()]).wrapping_add(next);
        at += count as usize;
        if count < 8 {
            return (value, at);
        }
    }
    digits(bytes, at, value)
}

/// Any decimal number, exactly or not at all.
#[cold]
fn exact(text: &[u8]) -> Option<Fixed> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (text, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (whole, decimals) = match text.iter().position(|byte| *byte == b'.') {
        Some(at) if at + 1 < text.len() => (&text[..at], &text[at + 1..]),
        Some(_) => return None,
        None => (text, &text[..0]),
    };
    if whole.is_empty() {
        return None;
    }
    // The significant digits without the zeros around them, and the power of ten they are times.
    let mut significant: i128 = 0;
    let mut power = 0_i64;
    let mut zeros = 0_u32;
    for byte in whole.iter().chain(decimals) {
        match byte {
            b'0' => zeros = zeros.saturating_add(u32::from(significant != 0)),
            b'1'..=b'9' => {
                let shift = 10_i128.checked_pow(zeros + 1)?;
                significant = significant.checked_mul(shift)? + i128::from(byte - b'0');
                zeros = 0;
            }
            _ => return None,
        }
    }
    power += i64::from(zeros) + exponent - i64::try_from(decimals.len()).ok()?;
    if significant == 0 {
        return Some(Fixed::ZERO);
    }
    let shift = u32::try_from(power.checked_add(DECIMALS as i64)?).ok()?;
    let value = significant.checked_mul(10_i128.checked_pow(shift)?)?;
    i64::try_from(if negative { -value } else { value }).ok().map(Fixed)
}

/// `-7`, `+5`, `08`. One that no number here can have counts as ten thousand.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |value: i64, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    });
    // Half of the range, so that adding a length of text cannot overflow.
    let value = value.min(i64::MAX / 2);
    Some(if negative { -value } else { value })
}

impl fmt::Display for Fixed {
    /// The shortest decimal that is exactly this: `61652.8`, `0.001`, `-3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, value) = (Self::ONE.0.unsigned_abs(), self.0.unsigned_abs());
        let (mut whole, mut rest) = (value / one, value % one);
        // 11 digits, the point, 8 digits; written from the end.
        let mut text = [0; 20];
        let mut at = text.len();
        let mut put = |digit: u8| {
            at -= 1;
            text[at] = digit;
        };
        if rest != 0 {
            let mut left = DECIMALS;
            while rest % 10 == 0 {
                rest /= 10;
                left -= 1;
            }
            for _ in 0..left {
                put(b'0' + (rest % 10) as u8);
                rest /= 10;
            }
            put(b'.');
        }
        loop {
            put(b'0' + (whole % 10) as u8);
            whole /= 10;
            if whole == 0 {
                break;
            }
        }
        let text = std::str::from_utf8(&text[at..]).unwrap_or_default();
        f.pad_integral(self.0 >= 0, "", text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Option<i64> {
        Fixed::parse(text.as_bytes()).map(|fixed| fixed.0)
    }

    #[test]
    fn what_venues_send() {
        for (text, value) in [
            ("61652.80", 6_165_280_000_000),
            ("0.000", 0),
            ("0", 0),
            ("20.004", 2_000_400_000),
            ("0.00000001", 1),
            ("-0.00010000", -10_000),
            ("10", 1_000_000_000),
            ("0.01380720000", 1_380_720),
            ("1.000000000000000000000000000", 100_000_000),
            ("00061652.8", 6_165_280_000_000),
            ("9999999999.99999999", 999_999_999_999_999_999),
            ("92233720368.54775807", i64::MAX),
            ("-92233720368.54775808", i64::MIN),
            ("1e-7", 10),
            ("1E5", 10_000_000_000_000),
            ("1.5e+2", 15_000_000_000),
            ("0E-8", 0),
            ("0e999999999999999999999999", 0),
            ("-0", 0),
            ("1000000000000000000000e-20", 1_000_000_000),
        ] {
            assert_eq!(parse(text), Some(value), "{text}");
        }
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "", ".", "-", "+1", "1.", ".5", "-.5", "1e", "1e+", "e5", "1.e5", "1.2.3", "--1", " 1",
            "1 ", "1,5", "0x10", "NaN", "inf", "1_0", "١", "1e5e5", "1e1.5", "1-", "1.-5",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        // Finer than 1e-8, or too large.
        for text in [
            "0.000000001",
            "1.123456789",
            "1e-9",
            "15e-9",
            "92233720368.54775808",
            "100000000000",
            "-92233720368.54775809",
            "1e11",
            "1e19",
            "1e400",
            "1e99999999999999999999",
            "5e-400",
            "1234567890123456789012345678901234567890123456789",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn display_is_short_exact_and_padded() {
        for (value, text) in [
            (6_165_280_000_000, "61652.8"),
            (0, "0"),
            (1, "0.00000001"),
            (-1, "-0.00000001"),
            (-300_000_000, "-3"),
            (1_000_000_000, "10"),
            (i64::MAX, "92233720368.54775807"),
            (i64::MIN, "-92233720368.54775808"),
        ] {
            assert_eq!(Fixed(value).to_string(), text);
        }
        assert_eq!(
            format!("{:>6}|{:<6}|", Fixed(150_000_000), Fixed(-50_000_000)),
            "   1.5|-0.5  |"
        );
    }

    /// The value in units of 1e-8 as a fraction of two big whole numbers, digit by digit; `None`
    /// where it is not whole or does not fit.
    fn oracle(negative: bool, whole: &str, decimals: &str, exponent: i32) -> Option<i64> {
        // Up to 12 + 12 digits and exponents to ±13: 24 + 13 + 8 digits would overflow an i128, but
        // from 10^20 on nothing fits anyway.
        let digits: i128 = format!("{whole}{decimals}").parse().unwrap();
        let power = exponent - decimals.len() as i32 + 8;
        let value = if power < 0 {
            let unit = 10_i128.pow(power.unsigned_abs());
            (digits % unit == 0).then(|| digits / unit)?
        } else {
            (0..power).try_fold(digits, |value, _| value.checked_mul(10))?
        };
        i64::try_from(if negative { -value } else { value }).ok()
    }

    proptest! {
        #[test]
        fn whole_numbers_of_any_length(value: u64, digits in 1..20_usize, tail in "[x.,\"}]{0,9}") {
            let value = value % 10_u64.pow(digits as u32);
            let text = format!("{value}{tail}");
            prop_assert_eq!(whole(text.as_bytes(), 0), (value, text.len() - tail.len()));
        }

        /// With anything behind it, as in a message.
        #[test]
        fn quoted_numbers_of_any_length(
            whole in "[0-9]{1,10}", decimals in "([0-9]{1,8})?", tail in "\"[,\\]0-9.\"]{0,12}",
        ) {
            let point = if decimals.is_empty() { "" } else { "." };
            let text = format!("{whole}{point}{decimals}{tail}");
            let expected = oracle(false, &whole, &decimals, 0).map(Fixed).unwrap();
            let end = text.len() - tail.len();
            let mut shape = Shape::NONE;
            for _ in 0..2 {
                let read = quoted_as(text.as_bytes(), 0, &mut shape);
                prop_assert_eq!(read, Some((expected, end)), "{}", text);
            }
            prop_assert_eq!(quoted(text.as_bytes(), 0), Some((expected, end)), "{}", text);
            prop_assert_eq!(quoted(&text.as_bytes()[..end], 0), None);
        }

        #[test]
        fn as_big_decimals_say(
            negative: bool, whole in "[0-9]{1,12}", decimals in "([0-9]{1,10}0{0,2})?",
            exponent in prop::option::of(-13..13),
        ) {
            let point = if decimals.is_empty() { "" } else { "." };
            let sign = if negative { "-" } else { "" };
            let mut text = format!("{sign}{whole}{point}{decimals}");
            if let Some(exponent) = exponent {
                text += &format!("e{exponent}");
            }
            prop_assert_eq!(parse(&text), oracle(negative, &whole, &decimals, exponent.unwrap_or(0)), "{}", text);
        }

        #[test]
        fn display_comes_back(value: i64) {
            prop_assert_eq!(parse(&Fixed(value).to_string()), Some(value));
        }

        #[test]
        fn any_bytes_return(text in prop::collection::vec(prop_oneof![Just(b'.'), Just(b'-'), Just(b'e'), b'0'..=b'9', any::<u8>()], 0..40)) {
            let _ = Fixed::parse(&text);
        }
    }
}
