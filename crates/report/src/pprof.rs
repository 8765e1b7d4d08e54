//! A flame graph in the format of `go tool pprof`: profile.proto, of which little is needed, so
//! that it is encoded by hand.

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use quietcore_measure::Flame;

/// The stacks as a compressed profile.
///
/// # Errors
/// None are known: it is written to memory.
pub fn pprof(flame: &Flame) -> std::io::Result<Vec<u8>> {
    let mut table = Strings::default();
    let (name, unit) = (table.number(&flame.name), table.number(unit_name(&flame.unit)));
    let mut profile = Message::default();
    profile.message(1, Message::default().number(1, name).number(2, unit));
    let mut functions = Strings::default();
    for (stack, &weight) in &flame.stacks {
        // Innermost first; a location here is a function, for lines are not kept.
        let locations: Vec<u64> = stack.rsplit(';').map(|frame| functions.number(frame)).collect();
        profile.message(2, Message::default().packed(1, &locations).packed(2, &[weight]));
    }
    for (id, name) in functions.all.iter().enumerate().skip(1) {
        let id = id as u64;
        let name = table.number(name);
        let mut line = Message::default();
        line.number(1, id);
        profile.message(4, Message::default().number(1, id).message(4, &line));
        profile.message(5, Message::default().number(1, id).number(2, name));
    }
    for text in &table.all {
        profile.bytes(6, text.as_bytes());
    }
    let mut gz = GzEncoder::new(Vec::new(), Compression::default());
    gz.write_all(&profile.0)?;
    gz.finish()
}

/// pprof knows units by their long names.
fn unit_name(unit: &str) -> &str {
    match unit {
        "ns" => "nanoseconds",
        "samples" => "count",
        other => other,
    }
}

/// Texts by number; 0 is the empty one, as the format wants it.
#[derive(Debug)]
struct Strings {
    all: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Default for Strings {
    fn default() -> Self {
        Self { all: vec![String::new()], numbers: HashMap::from([(String::new(), 0)]) }
    }
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// A message of protocol buffers.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.bytes(field, &message.0)
    }

    fn packed(&mut self, field: u64, values: &[u64]) -> &mut Self {
        let mut packed = Self::default();
        values.iter().for_each(|&value| packed.varint(value));
        self.bytes(field, &packed.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_cut_into_groups_of_seven_bits() {
        assert_eq!(Message::default().number(1, 150).0, [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().packed(4, &[3, 270]).0, [0x22, 3, 3, 0x8e, 0x02]);
    }
}
