//! JSON as venues send it, without a tree and without copies.
//!
//! A [`Scanner`] is a place in a message's bytes. Who knows the message asks it for what must come
//! next (an object, a key, a number, a book's levels) and skips the rest, however deep. Keys come
//! in any order and with any whitespace; strings may be escaped. What is not JSON (RFC 8259) is an
//! error, also in what is skipped, with two limits of its own: a skipped value may be nested
//! [`DEPTH`] deep, and numbers that are skipped may be of any size.
//!
//! Strings are handed out as they stand in the message, checked to be UTF-8, escapes and all:
//! [`text`] compares and decodes them.

mod error;
mod levels;
mod skip;
pub mod text;

pub use error::{Fault, ScanError};
pub use skip::DEPTH;

use crate::fixed::{Fixed, eight, quoted, whole};

/// A place in a message's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// At the message's first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// An error at this place.
    #[cold]
    pub fn fault(&self, fault: Fault) -> ScanError {
        ScanError { fault, at: self.at }
    }

    /// An error at this place: something else must stand here, or the message ends too early.
    #[cold]
    pub fn expected(&self, what: &'static str) -> ScanError {
        self.fault(if self.at < self.bytes.len() {
            Fault::Expected(what)
        } else {
            Fault::Truncated
        })
    }

    /// Steps over whitespace; the byte there, without stepping over it.
    #[inline(always)]
    pub fn peek(&mut self) -> Result<u8, ScanError> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte > b' ' => Ok(*byte),
            _ => self.peek_behind_whitespace(),
        }
    }

    #[cold]
    fn peek_behind_whitespace(&mut self) -> Result<u8, ScanError> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(*byte);
            }
            self.at += 1;
        }
        Err(self.fault(Fault::Truncated))
    }

    /// Steps over whitespace and `byte`, if that is what comes.
    #[inline(always)]
    pub fn take(&mut self, byte: u8) -> Result<bool, ScanError> {
        let is = self.peek()? == byte;
        self.at += usize::from(is);
        Ok(is)
    }

    /// Steps over `byte`, which must come.
    #[inline(always)]
    pub fn open(&mut self, byte: u8, what: &'static str) -> Result<(), ScanError> {
        if self.take(byte)? { Ok(()) } else { Err(self.expected(what)) }
    }

    /// Steps over these bytes, if they are what comes, exactly so.
    #[inline(always)]
    pub fn take_text(&mut self, text: &'static [u8]) -> bool {
        let is = self.bytes.get(self.at..self.at + text.len()) == Some(text);
        self.at += if is { text.len() } else { 0 };
        is
    }

    /// The whole number behind this text, if both come.
    #[inline(always)]
    pub fn number_behind(&mut self, text: &'static [u8]) -> Option<u64> {
        if self.take_text(text) { self.number().ok() } else { None }
    }

    /// The string behind this text, which ends with the first quote, if both come.
    #[inline(always)]
    pub fn string_behind(&mut self, text: &'static [u8]) -> Option<&'a [u8]> {
        if self.take_text(text) { self.string_from_here().ok() } else { None }
    }

    /// The price or quantity behind this text, which ends with the first quote, if both come.
    #[inline(always)]
    pub fn amount_behind(&mut self, text: &'static [u8]) -> Option<Fixed> {
        if !self.take_text(text) {
            return None;
        }
        let (amount, end) = quoted(self.bytes, self.at)?;
        self.at = end + 1;
        Some(amount)
    }

    /// Nothing but whitespace may come any more.
    pub fn end(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            Err(_) => Ok(()),
            Ok(_) => Err(self.fault(Fault::Trailing)),
        }
    }

    /// Opens an object and gives its first key, as [`Scanner::next_key`] does.
    #[inline(always)]
    pub fn first_key(
        &mut self,
        known: &'static [&'static [u8]],
    ) -> Result<Option<&'a [u8]>, ScanError> {
        self.open(b'{', "an object")?;
        if self.take(b'}')? {
            return Ok(None);
        }
        self.key(known).map(Some)
    }

    /// The key behind a value that was read, or `None` at the object's end. A key that is written
    /// with escapes is given plain where it is one of the `known`, else as it is written.
    #[inline(always)]
    pub fn next_key(
        &mut self,
        known: &'static [&'static [u8]],
    ) -> Result<Option<&'a [u8]>, ScanError> {
        // Most keys of most messages: `,"u":`, `,"pu":`.
        let Some(text) = eight::load(self.bytes, self.at) else { return self.other_key(known) };
        let is_letter = |byte: u64| byte.to_le_bytes()[0].is_ascii_alphabetic();
        let length = if text & 0xff_ff00_ffff == u64::from_le_bytes(*b",\"\0\":\0\0\0")
            && is_letter(text >> 16)
        {
            1
        } else if text & 0xffff_0000_ffff == u64::from_le_bytes(*b",\"\0\0\":\0\0")
            && is_letter(text >> 16)
            && is_letter(text >> 24)
        {
            2
        } else {
            return self.other_key(known);
        };
        let start = self.at + 2;
        self.at = start + length + 2;
        Ok(self.bytes.get(start..start + length))
    }

    /// Any key.
    fn other_key(
        &mut self,
        known: &'static [&'static [u8]],
    ) -> Result<Option<&'a [u8]>, ScanError> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                self.key(known).map(Some)
            }
            b'}' => {
                self.at += 1;
                Ok(None)
            }
            _ => Err(self.expected("a comma or the object's end")),
        }
    }

    /// A key and its colon.
    #[inline]
    fn key(&mut self, known: &'static [&'static [u8]]) -> Result<&'a [u8], ScanError> {
        let key = self.string()?;
        self.open(b':', "a colon")?;
        Ok(if key.contains(&b'\\') { text::plain_of(key, known) } else { key })
    }

    /// A string, without its quotes and otherwise as it is written.
    #[inline(always)]
    pub fn string(&mut self) -> Result<&'a [u8], ScanError> {
        self.open(b'"', "a string")?;
        self.string_from_here()
    }

    /// The rest of a string whose first quote is behind us.
    #[inline(always)]
    pub fn string_from_here(&mut self) -> Result<&'a [u8], ScanError> {
        let start = self.at;
        while let Some(text) = eight::load(self.bytes, self.at) {
            let plain = eight::special(text).trailing_zeros() / 8;
            self.at += plain as usize;
            if plain < 8 {
                break;
            }
        }
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => {
                    let string = &self.bytes[start..self.at];
                    self.at += 1;
                    return Ok(string);
                }
                b'\\' | ..0x20 | 0x80.. => return self.special_string(start),
                _ => self.at += 1,
            }
        }
        Err(self.fault(Fault::Truncated))
    }

    /// A whole number that is not negative.
    #[inline(always)]
    pub fn number(&mut self) -> Result<u64, ScanError> {
        let first = self.peek()?;
        let (value, end) = whole(self.bytes, self.at);
        let count = end - self.at;
        // Up to 19 digits cannot overflow.
        if count.wrapping_sub(1) < 19
            && (first != b'0' || count == 1)
            && !matches!(self.bytes.get(end), Some(b'.' | b'e' | b'E'))
        {
            self.at = end;
            return Ok(value);
        }
        self.unusual_number(end)
    }

    #[cold]
    fn unusual_number(&mut self, end: usize) -> Result<u64, ScanError> {
        let digits = &self.bytes[self.at..end];
        let is_whole = !matches!(self.bytes.get(end), Some(b'.' | b'e' | b'E'));
        if digits.len() < 20 || digits[0] == b'0' || !is_whole {
            return Err(self.expected("a whole number that is not negative"));
        }
        let value = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let value = value.ok_or(self.fault(Fault::TooLarge))?;
        self.at = end;
        Ok(value)
    }

    /// A whole number that may be negative.
    pub fn signed_number(&mut self) -> Result<i64, ScanError> {
        let place = *self;
        let is_negative = self.take(b'-')?;
        if is_negative && !self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            return Err(place.expected("a whole number"));
        }
        let size = self.number()?;
        let value =
            if is_negative { 0_i64.checked_sub_unsigned(size) } else { size.try_into().ok() };
        value.ok_or(place.fault(Fault::TooLarge))
    }

    /// A whole number in quotes.
    pub fn quoted_number(&mut self) -> Result<u64, ScanError> {
        let place = *self;
        let string = self.string()?;
        let mut buffer = [0; text::BUFFER];
        let plain =
            text::plain(string, &mut buffer).and_then(|text| std::str::from_utf8(text).ok());
        let is_digits = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
        match plain.filter(is_digits).and_then(|text| text.parse().ok()) {
            Some(value) => Ok(value),
            None => Err(place.expected("a whole number in quotes")),
        }
    }

    /// `true` or `false`.
    #[inline]
    pub fn boolean(&mut self) -> Result<bool, ScanError> {
        self.peek()?;
        let rest = &self.bytes[self.at..];
        let value = rest.starts_with(b"true");
        if !value && !rest.starts_with(b"false") {
            return Err(self.expected("true or false"));
        }
        self.at += if value { 4 } else { 5 };
        Ok(value)
    }

    /// A decimal number in quotes.
    #[inline(always)]
    pub fn fixed(&mut self) -> Result<Fixed, ScanError> {
        if self.peek()? == b'"' {
            if let Some((fixed, end)) = quoted(self.bytes, self.at + 1) {
                self.at = end + 1;
                return Ok(fixed);
            }
        }
        self.unusual_fixed()
    }

    /// One that is written otherwise than usual.
    #[cold]
    fn unusual_fixed(&mut self) -> Result<Fixed, ScanError> {
        let place = *self;
        let string = self.string()?;
        let mut buffer = [0; text::BUFFER];
        text::plain(string, &mut buffer)
            .and_then(Fixed::parse)
            .ok_or(place.fault(Fault::NotADecimal))
    }

    /// A decimal number in quotes that is not negative: a price, a quantity.
    #[inline(always)]
    pub fn amount(&mut self) -> Result<Fixed, ScanError> {
        let place = *self;
        let fixed = self.fixed()?;
        if fixed < Fixed::ZERO { Err(place.fault(Fault::Negative)) } else { Ok(fixed) }
    }
}

#[cfg(test)]
mod tests;
