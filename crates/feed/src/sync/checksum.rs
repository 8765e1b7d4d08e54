//! A venue's checksum of a book, as OKX makes it: the CRC-32 (signed) of the best 25 prices and
//! quantities of either side, bid and ask in turns, joined by colons, as the venue writes them
//! ("Order book channel, Checksum" of its API's documentation). Where one side has fewer levels the
//! other's follow one another.
//!
//! It is of the text: `1.50` is not `1.5`. OKX leaves trailing zeros away; others write so many
//! decimals at least. Which way it is here is found from the checksums themselves.

use crate::book::Book;
use crate::fixed::Fixed;
use crate::market::{Level, Side};

/// Levels of a side that the checksum is made of.
const LEVELS: usize = 25;
const DECIMALS: u8 = 8;

/// How many decimals a venue writes at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Form {
    price: u8,
    quantity: u8,
}

impl Form {
    fn all() -> impl Iterator<Item = Self> {
        (0..=DECIMALS)
            .flat_map(|price| (0..=DECIMALS).map(move |quantity| Self { price, quantity }))
    }
}

/// Makes the text of a book's best levels, in memory that is used again.
#[derive(Debug)]
pub(super) struct Checksum {
    form: Form,
    bids: Vec<Level>,
    asks: Vec<Level>,
    text: Vec<u8>,
}

impl Checksum {
    pub fn new() -> Self {
        Self {
            form: Form::default(),
            bids: Vec::with_capacity(LEVELS),
            asks: Vec::with_capacity(LEVELS),
            // 100 numbers of at most 21 characters and a colon.
            text: Vec::with_capacity(100 * 22),
        }
    }

    /// Whether the book has this checksum. Where it has not with the decimals written as before,
    /// other ways are tried: of 81 wrong texts one has it by chance once in 50 million books.
    pub fn agrees(&mut self, book: &Book, expected: i32) -> bool {
        for (side, levels) in [(Side::Bid, &mut self.bids), (Side::Ask, &mut self.asks)] {
            levels.clear();
            levels.extend(book.levels(side).take(LEVELS));
        }
        if self.of(self.form) == expected {
            return true;
        }
        let other = Form::all().find(|form| self.of(*form) == expected);
        self.form = other.unwrap_or(self.form);
        other.is_some()
    }

    fn of(&mut self, form: Form) -> i32 {
        self.text.clear();
        for at in 0..LEVELS {
            for level in [self.bids.get(at), self.asks.get(at)].into_iter().flatten() {
                write(&mut self.text, level.price, form.price);
                write(&mut self.text, level.quantity, form.quantity);
            }
        }
        self.text.pop();
        crc32fast::hash(&self.text) as i32
    }
}

/// The number with so many decimals at least, none of them a needless zero, and a colon.
fn write(text: &mut Vec<u8>, value: Fixed, least: u8) {
    let one = Fixed::ONE.0.unsigned_abs();
    let (mut whole, mut rest) = (value.0.unsigned_abs() / one, value.0.unsigned_abs() % one);
    let mut decimals = usize::from(DECIMALS);
    while decimals > usize::from(least) && rest % 10 == 0 {
        rest /= 10;
        decimals -= 1;
    }
    // From the last character to the first.
    let mut characters = [b':'; 24];
    let mut at = characters.len() - 1;
    let mut put = |character: u8| {
        at -= 1;
        characters[at] = character;
    };
    for _ in 0..decimals {
        put(b'0' + (rest % 10) as u8);
        rest /= 10;
    }
    if decimals > 0 {
        put(b'.');
    }
    loop {
        put(b'0' + (whole % 10) as u8);
        whole /= 10;
        if whole == 0 {
            break;
        }
    }
    if value.0 < 0 {
        put(b'-');
    }
    text.extend_from_slice(&characters[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::BookConfig;
    use crate::market::Levels;
    use proptest::prelude::*;

    fn written(value: i64, least: u8) -> String {
        let mut text = Vec::new();
        write(&mut text, Fixed(value), least);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_are_written_as_venues_write_them() {
        let cases = [
            (336_610_000_000, 0, "3366.1:"),
            (336_600_000_000, 0, "3366:"),
            (336_600_000_000, 1, "3366.0:"),
            (1, 0, "0.00000001:"),
            (0, 0, "0:"),
            (0, 2, "0.00:"),
            (-150_000_000, 3, "-1.500:"),
            (i64::MAX, 8, "92233720368.54775807:"),
            (i64::MIN, 0, "-92233720368.54775808:"),
        ];
        for (value, least, expected) in cases {
            assert_eq!(written(value, least), expected);
        }
    }

    /// CRC-32 bit by bit (ISO 3309, reflected).
    fn crc(text: &[u8]) -> i32 {
        let bit = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc));
        !text.iter().fold(!0, byte) as i32
    }

    fn book(bids: &[(&str, &str)], asks: &[(&str, &str)]) -> Book {
        let side = |side: &[(&str, &str)]| side.iter().map(|row| level(*row)).collect();
        let mut book = Book::new(BookConfig::default());
        book.load(&Levels { bids: side(bids), asks: side(asks) });
        book
    }

    fn level((price, quantity): (&str, &str)) -> Level {
        let fixed = |text: &str| Fixed((text.parse::<f64>().unwrap() * 1e8).round() as i64);
        Level { price: fixed(price), quantity: fixed(quantity) }
    }

    #[test]
    fn bids_and_asks_take_turns_and_the_longer_side_goes_on_alone() {
        let both = book(&[("3366.1", "7"), ("3366", "6")], &[("3366.8", "9"), ("3368", "8")]);
        let mut checksum = Checksum::new();
        assert!(checksum.agrees(&both, crc(b"3366.1:7:3366.8:9:3366:6:3368:8")));
        let longer = book(&[("3366.1", "7")], &[("3366.8", "9"), ("3368", "8"), ("3372", "8")]);
        assert!(checksum.agrees(&longer, crc(b"3366.1:7:3366.8:9:3368:8:3372:8")));
        assert!(!checksum.agrees(&longer, crc(b"3366.1:7:3366.8:9:3368:8:3372:9")));
        let none = book(&[], &[]);
        assert!(checksum.agrees(&none, crc(b"")));
    }

    #[test]
    fn only_the_best_25_of_each_side_count() {
        let rows: Vec<_> = (1..=40).map(|n| (n.to_string(), (n * 2).to_string())).collect();
        let asks: Vec<_> = rows.iter().map(|(p, q)| (p.as_str(), q.as_str())).collect();
        let text: Vec<_> = rows[..25].iter().map(|(p, q)| format!("{p}:{q}")).collect();
        let mut checksum = Checksum::new();
        assert!(checksum.agrees(&book(&[], &asks), crc(text.join(":").as_bytes())));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn trailing_zeros_are_found_out(
            price in 0usize..=4,
            quantity in 0usize..=4,
            numbers in proptest::collection::vec((1u32..1_000_000, 1u32..1_000_000), 1..20),
        ) {
            let mut book = Book::new(BookConfig::default());
            let mut checksum = Checksum::new();
            for (p, q) in numbers {
                let level = Level {
                    price: Fixed(i64::from(p) * 10i64.pow(8 - price as u32)),
                    quantity: Fixed(i64::from(q) * 10i64.pow(8 - quantity as u32)),
                };
                book.apply(Side::Ask, level);
                // Every number with all its decimals, as a venue with a fixed form writes it.
                let all = |fixed: Fixed, decimals| format!("{:.decimals$}", fixed.0 as f64 / 1e8);
                let text: Vec<_> = book.levels(Side::Ask).take(LEVELS)
                    .map(|l| format!("{}:{}", all(l.price, price), all(l.quantity, quantity)))
                    .collect();
                let expected = crc(text.join(":").as_bytes());
                prop_assert!(checksum.agrees(&book, expected));
                prop_assert!(!checksum.agrees(&book, expected ^ 1));
                prop_assert!(checksum.agrees(&book, expected), "a wrong one changes nothing");
            }
        }
    }
}
