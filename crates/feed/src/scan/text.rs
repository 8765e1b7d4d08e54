//! Strings as they stand in a message, escapes and all.
//!
//! Venues escape nothing that they need not, so all of this is for the message that is legal and
//! unusual; the usual one is compared byte by byte.

use super::Fault;

/// The longest number in quotes that may be escaped, in bytes.
pub const BUFFER: usize = 64;

/// Is a string, as a message writes it, this text?
#[inline]
pub fn is(string: &[u8], text: &[u8]) -> bool {
    string == text || (string.contains(&b'\\') && is_decoded(string, text))
}

/// Is a string, as a message writes it, this name in whatever case? Only ASCII letters have cases
/// here.
pub fn names(string: &[u8], name: &[u8]) -> bool {
    if !string.contains(&b'\\') {
        return string.eq_ignore_ascii_case(name);
    }
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let lower = |char: char| char.to_ascii_lowercase();
    chars(string).map(|(_, char)| char.map(lower)).eq(name.chars().map(|char| Some(lower(char))))
}

#[cold]
fn is_decoded(string: &[u8], text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    chars(string).map(|(_, char)| char).eq(text.chars().map(Some))
}

/// Which of the known texts an escaped string is; the string itself if it is none.
#[cold]
pub fn plain_of<'a>(string: &'a [u8], known: &'static [&'static [u8]]) -> &'a [u8] {
    if !string.contains(&b'\\') {
        return string;
    }
    known.iter().copied().find(|known| is_decoded(string, known)).unwrap_or(string)
}

/// What comes before the first `end`, escaped or not; all if it does not come.
pub fn until(string: &[u8], end: char) -> &[u8] {
    let at = if string.contains(&b'\\') {
        chars(string).find(|(_, char)| *char == Some(end)).map(|(at, _)| at)
    } else {
        string.iter().position(|byte| char::from(*byte) == end)
    };
    &string[..at.unwrap_or(string.len())]
}

/// A string without its escapes: in `buffer` if it has any. `None` where it is too long for that.
#[inline]
pub fn plain<'b>(string: &'b [u8], buffer: &'b mut [u8; BUFFER]) -> Option<&'b [u8]> {
    if !string.contains(&b'\\') {
        return Some(string);
    }
    let mut length = 0;
    for (_, char) in chars(string) {
        let char = char?;
        let room = buffer.get_mut(length..length + char.len_utf8())?;
        length += char.encode_utf8(room).len();
    }
    buffer.get(..length)
}

/// Is it UTF-8, and are its escapes JSON's? Else what is wrong, and at which byte of it.
pub(super) fn check(string: &[u8]) -> Result<(), (Fault, usize)> {
    if let Err(error) = std::str::from_utf8(string) {
        return Err((Fault::NotUtf8, error.valid_up_to()));
    }
    match chars(string).find(|(_, char)| char.is_none()) {
        Some((at, _)) => Err((Fault::BadString, at)),
        None => Ok(()),
    }
}

/// The characters that a string means, and at which byte of it each begins. `None`: an escape
/// that is none, or half of a surrogate pair.
fn chars(string: &[u8]) -> impl Iterator<Item = (usize, Option<char>)> {
    let text = std::str::from_utf8(string).unwrap_or_default();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let char = text.get(at..)?.chars().next()?;
        at += char.len_utf8();
        if char != '\\' {
            return Some((start, Some(char).filter(|char| *char >= ' ')));
        }
        let (char, length) = escape(&string[at..]).unzip();
        // What is no escape ends the string: everything behind it would be a guess.
        at = length.map_or(string.len(), |length| at + length);
        Some((start, char))
    })
}

/// What stands behind a backslash (RFC 8259, section 7), and its length.
fn escape(rest: &[u8]) -> Option<(char, usize)> {
    let char = match rest.first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(rest),
        _ => return None,
    };
    Some((char, 1))
}

/// `u0041`, or a pair of surrogates: `ud83d\ude00`.
fn unicode_escape(rest: &[u8]) -> Option<(char, usize)> {
    let unit = |from: usize| -> Option<u16> {
        rest.get(from..from + 4)?.iter().try_fold(0, |value, byte| {
            Some(value << 4 | u16::try_from(char::from(*byte).to_digit(16)?).ok()?)
        })
    };
    let first = unit(1)?;
    match char::from_u32(first.into()) {
        Some(char) => Some((char, 5)),
        None if rest.get(5..7)? == b"\\u" => {
            let pair = [first, unit(7)?];
            let mut chars = char::decode_utf16(pair);
            let char = chars.next()?.ok()?;
            Some((char, 11))
        }
        None => None,
    }
}
