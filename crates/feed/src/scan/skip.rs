//! Values that nobody needs: stepped over, and still checked.

use super::text::check;
use super::{Fault, ScanError, Scanner};
use crate::fixed::eight;

/// How deep a value that is skipped may be nested.
pub const DEPTH: u32 = u128::BITS;

impl<'a> Scanner<'a> {
    /// Steps over any value.
    #[inline]
    pub fn skip(&mut self) -> Result<(), ScanError> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' | b'[' => self.skip_nested(),
            _ => self.skip_scalar(),
        }
    }

    /// Steps over an object or array. Which of the two each level is, is a bit of `kinds`: no
    /// recursion, so that no message can exhaust the stack.
    fn skip_nested(&mut self) -> Result<(), ScanError> {
        let (mut kinds, mut depth) = (0_u128, 0);
        loop {
            let opening = self.peek()?;
            match opening {
                b'{' | b'[' => {
                    if depth == DEPTH {
                        return Err(self.fault(Fault::TooDeep));
                    }
                    self.at += 1;
                    let is_object = opening == b'{';
                    // The closing brackets are two above the opening ones in ASCII.
                    if !self.take(opening + 2)? {
                        (kinds, depth) = (kinds << 1 | u128::from(is_object), depth + 1);
                        if is_object {
                            self.skip_key()?;
                        }
                        continue;
                    }
                }
                b'"' => drop(self.string()?),
                _ => self.skip_scalar()?,
            }
            // A value ended, and with it perhaps what it was in.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let is_object = kinds & 1 == 1;
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        if is_object {
                            self.skip_key()?;
                        }
                        break;
                    }
                    b'}' if is_object => {}
                    b']' if !is_object => {}
                    _ => return Err(self.expected("a comma or the end of what is open")),
                }
                self.at += 1;
                (kinds, depth) = (kinds >> 1, depth - 1);
            }
        }
    }

    fn skip_key(&mut self) -> Result<(), ScanError> {
        self.string()?;
        self.open(b':', "a colon")
    }

    /// Steps over a number, `true`, `false` or `null`.
    #[inline]
    fn skip_scalar(&mut self) -> Result<(), ScanError> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.skip_number(),
            _ => {
                let rest = &self.bytes[self.at..];
                let words: [&[u8]; 3] = [b"null", b"true", b"false"];
                let word = words.into_iter().find(|word| rest.starts_with(word));
                self.at += word.ok_or_else(|| self.expected("a value"))?.len();
                Ok(())
            }
        }
    }

    #[inline]
    fn skip_number(&mut self) -> Result<(), ScanError> {
        self.at += usize::from(self.bytes.get(self.at) == Some(&b'-'));
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.skip_digits()?,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.skip_digits()?;
        }
        Ok(())
    }

    /// At least one digit.
    #[inline]
    fn skip_digits(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        while let Some(text) = eight::load(self.bytes, self.at) {
            let digits = eight::not_digits(text).trailing_zeros() / 8;
            self.at += digits as usize;
            if digits < 8 {
                break;
            }
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    /// A string with something in it besides plain ASCII; it started at `start`.
    #[cold]
    pub(super) fn special_string(&mut self, start: usize) -> Result<&'a [u8], ScanError> {
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                // Whatever is escaped is checked below; here only a quote must not end it.
                Some(b'\\') if self.at + 1 < self.bytes.len() => self.at += 2,
                Some(0x20..) => self.at += 1,
                Some(_) => return Err(self.fault(Fault::BadString)),
                None => return Err(self.fault(Fault::Truncated)),
            }
        }
        let string = &self.bytes[start..self.at];
        match check(string) {
            Ok(()) => {
                self.at += 1;
                Ok(string)
            }
            Err((fault, at)) => Err(ScanError { fault, at: start + at }),
        }
    }
}
