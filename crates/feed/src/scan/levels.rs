//! A book's levels: `[["61652.80","0.195"],["61653.30","0.072"]]`.

use super::{ScanError, Scanner};
use crate::fixed::plain;
use crate::market::Level;

impl Scanner<'_> {
    /// The levels of one side, in the message's order. A row may hold more than a price and a
    /// quantity: that is skipped.
    #[inline]
    pub fn levels(&mut self, levels: &mut Vec<Level>) -> Result<(), ScanError> {
        levels.clear();
        self.open(b'[', "an array of levels")?;
        if self.take(b']')? {
            return Ok(());
        }
        loop {
            levels.push(self.row()?);
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                _ if self.take(b',')? => {}
                _ if self.take(b']')? => return Ok(()),
                _ => return Err(self.expected("a comma or the levels' end")),
            }
        }
    }

    /// `["61652.80","0.195"]`
    #[inline(always)]
    fn row(&mut self) -> Result<Level, ScanError> {
        match usual_row(self.bytes, self.at) {
            Some((level, end)) => {
                self.at = end;
                match self.bytes.get(end) {
                    Some(b']') => self.at += 1,
                    _ => self.rest_of_row()?,
                }
                Ok(level)
            }
            None => self.unusual_row(),
        }
    }

    #[cold]
    fn unusual_row(&mut self) -> Result<Level, ScanError> {
        self.open(b'[', "a level")?;
        let price = self.amount()?;
        self.open(b',', "a comma and a quantity")?;
        let quantity = self.amount()?;
        self.rest_of_row()?;
        Ok(Level { price, quantity })
    }

    fn rest_of_row(&mut self) -> Result<(), ScanError> {
        while self.take(b',')? {
            self.skip()?;
        }
        self.open(b']', "a comma or the level's end")
    }
}

/// Price and quantity, if they are written as venues write them, and where that ends.
#[inline(always)]
fn usual_row(bytes: &[u8], at: usize) -> Option<(Level, usize)> {
    if bytes.get(at..at + 2)? != b"[\"" {
        return None;
    }
    let (price, end) = plain(bytes, at + 2)?;
    if bytes.get(end..end + 3)? != b"\",\"" {
        return None;
    }
    let (quantity, end) = plain(bytes, end + 3)?;
    if bytes.get(end)? != &b'"' {
        return None;
    }
    Some((Level { price, quantity }, end + 1))
}
