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
        if self.usual_levels(levels) {
            return Ok(());
        }
        loop {
            levels.push(self.row()?);
            if self.take(b']')? {
                return Ok(());
            }
            self.open(b',', "a comma or the levels' end")?;
        }
    }

    /// Reads levels as long as they are written as venues write them. Were those all? Else this
    /// stands at the next.
    #[inline(always)]
    fn usual_levels(&mut self, levels: &mut Vec<Level>) -> bool {
        let mut shapes = [Shape::NONE; 2];
        let mut at = self.at;
        if self.bytes.get(at..at + 2) != Some(b"[\"") {
            return false;
        }
        loop {
            let Some((level, end)) = usual_row(self.bytes, at + 2, &mut shapes) else {
                return false;
            };
            match self.bytes.get(end..end + 2) {
                Some(b"],") => {
                    levels.push(level);
                    at = end + 2;
                }
                Some(b"]]") => {
                    levels.push(level);
                    self.at = end + 2;
                    return true;
                }
                _ => return false,
            }
            self.at = at;
            if self.bytes.get(at..at + 2) != Some(b"[\"") {
                return false;
            }
        }
    }

    /// `["61652.80","0.195"]`
    fn row(&mut self) -> Result<Level, ScanError> {
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

/// Price and quantity behind the first quote of a row, if they are written as venues write them,
/// and the place behind the last quote.
#[inline(always)]
fn usual_row(bytes: &[u8], at: usize, shapes: &mut [Shape; 2]) -> Option<(Level, usize)> {
    let [of_price, of_quantity] = shapes;
    let (price, end) = quoted_as(bytes, at, of_price)?;
    if bytes.get(end + 1..end + 3)? != b",\"" {
        return None;
    }
    let (quantity, end) = quoted_as(bytes, end + 3, of_quantity)?;
    Some((Level { price, quantity }, end + 1))
}
