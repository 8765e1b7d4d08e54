//! A book's levels: `[["61652.80","0.195"],["61653.30","0.072"]]`.

use super::{ScanError, Scanner};
use crate::fixed::{Shape, quoted_as};
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
        let mut shapes = [Shape::NONE; 2];
        loop {
            levels.push(self.row(&mut shapes)?);
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
    fn row(&mut self, shapes: &mut [Shape; 2]) -> Result<Level, ScanError> {
        match usual_row(self.bytes, self.at, shapes) {
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
fn usual_row(bytes: &[u8], at: usize, shapes: &mut [Shape; 2]) -> Option<(Level, usize)> {
    let [of_price, of_quantity] = shapes;
    if bytes.get(at..at + 2)? != b"[\"" {
        return None;
    }
    let (price, end) = quoted_as(bytes, at + 2, of_price)?;
    if bytes.get(end + 1..end + 3)? != b",\"" {
        return None;
    }
    let (quantity, end) = quoted_as(bytes, end + 3, of_quantity)?;
    Some((Level { price, quantity }, end + 1))
}
