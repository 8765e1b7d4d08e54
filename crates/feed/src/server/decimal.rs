//! Decimal texts to whole numbers of 1e-8 and back, with as many digits as the venue writes.

use std::fmt::Write;

/// 1 in whole numbers of 1e-8.
pub(super) const ONE: i64 = 100_000_000;

/// Reads `61652.80`: its value in 1e-8, and how many digits stand after the point. Nothing for
/// what is not a plain number that 1e-8 can hold exactly.
pub(super) fn parse(text: &str) -> Option<(i64, u32)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) {
        return None;
    }
    let kept = fraction.trim_end_matches('0');
    if kept.len() > 8 {
        return None;
    }
    let below: i64 = format!("{kept:0<8}").parse().ok()?;
    let value = whole.parse::<i64>().ok()?.checked_mul(ONE)?.checked_add(below)?;
    Some((sign * value, u32::try_from(fraction.len()).ok()?))
}

/// Writes `value` (1e-8) with `digits` (0 to 8) after the point; finer digits are cut off.
pub(super) fn write(out: &mut String, value: i64, digits: u32) {
    let unit = value / 10_i64.pow(8 - digits.min(8));
    let scale = 10_i64.pow(digits.min(8));
    let sign = if unit < 0 { "-" } else { "" };
    let (whole, below) = ((unit / scale).abs(), (unit % scale).abs());
    let written = match digits {
        0 => write!(out, "{sign}{whole}"),
        _ => write!(out, "{sign}{whole}.{below:0width$}", width = digits as usize),
    };
    debug_assert!(written.is_ok(), "a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: i64, digits: u32) -> String {
        let mut out = String::new();
        write(&mut out, value, digits);
        out
    }

    #[test]
    fn reads_and_writes_what_a_venue_writes() {
        for (text, value, digits) in [
            ("61652.80", 6_165_280_000_000, 2),
            ("0.195", 19_500_000, 3),
            ("1000", 100_000_000_000, 0),
            ("-0.00010000", -10_000, 8),
            ("0.000", 0, 3),
        ] {
            assert_eq!(parse(text), Some((value, digits)), "{text}");
            assert_eq!(written(value, digits), text);
        }
    }

    #[test]
    fn refuses_what_is_no_plain_number() {
        for text in ["", ".", ".5", "1e5", "+1", "1.2.3", "0.123456789", "99999999999", "NaN"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
