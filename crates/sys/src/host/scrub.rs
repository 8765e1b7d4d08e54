//! Takes out of an answer what identifies a host or its owner and what no check reads.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Replaces MAC addresses, IP addresses and UUIDs by zeros of the same form.
///
/// What the init process is told (after ` -- ` on the kernel command line) is not a kernel
/// parameter and may be anything; it is cut off by [`crate::host::Host::command_line`].
pub fn scrub(text: &str) -> String {
    scrub_words(&rename(text, |_| format!("{:012}", 0)))
}

/// Network interfaces that are named after their MAC address (`enx525400123456`) have other names
/// in a recording, and must be asked of under their own.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    /// The number that stands for each address.
    numbers: BTreeMap<String, usize>,
}

impl Interfaces {
    /// The names that this host knows, in a key or a path that was made of scrubbed answers.
    pub(super) fn real(&self, text: &str) -> String {
        let address = |name: &str| {
            let known = self.numbers.iter().find(|(_, number)| digits(**number) == name);
            known.map_or(name, |(address, _)| address).to_owned()
        };
        rename(text, address)
    }

    pub(super) fn scrub_value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let clean = self.scrub(text);
                if clean != *text {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.scrub_value(item)),
            Value::Object(map) => {
                let entries = std::mem::take(map).into_iter();
                let clean = entries.map(|(key, mut value)| {
                    self.scrub_value(&mut value);
                    (self.scrub(&key), value)
                });
                *map = clean.collect::<Map<_, _>>();
            }
            _ => {}
        }
    }

    fn scrub(&mut self, text: &str) -> String {
        let number = |address: &str| {
            let next = self.numbers.len() + 1;
            digits(*self.numbers.entry(address.to_owned()).or_insert(next))
        };
        scrub_words(&rename(text, number))
    }
}

fn digits(number: usize) -> String {
    format!("{number:012}")
}

/// Replaces the addresses in names of network interfaces: systemd's `enx`, `wlx` and their like,
/// and twelve hexadecimal digits.
fn rename(text: &str, mut address: impl FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let name = ["en", "wl", "ww", "ib", "sl"].iter().find_map(|kind| word.strip_prefix(kind));
        match name.and_then(|rest| rest.strip_prefix('x')).filter(|a| a.len() == 12 && hex(a)) {
            Some(found) => {
                out.push_str(&word[..3]);
                out.push_str(&address(found));
                out.push_str(&piece[word.len()..]);
            }
            None => out.push_str(piece),
        }
    }
    out
}

fn scrub_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-');
    let mut rest = text;
    while !rest.is_empty() {
        let word_end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(word_end);
        out.push_str(&scrub_word(word));
        let gap_end = tail.find(is_word).unwrap_or(tail.len());
        let (gap, next) = tail.split_at(gap_end);
        out.push_str(gap);
        rest = next;
    }
    out
}

fn scrub_word(word: &str) -> String {
    let zeros =
        || word.chars().map(|c| if matches!(c, ':' | '.' | '-') { c } else { '0' }).collect();
    match is_mac(word) || is_ipv4(word) || is_ipv6(word) || is_uuid(word) {
        true => zeros(),
        false => word.to_owned(),
    }
}

fn hex(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_mac(word: &str) -> bool {
    word.len() == 17
        && word.split(':').count() == 6
        && word.split(':').all(|p| p.len() == 2 && hex(p))
}

fn is_ipv4(word: &str) -> bool {
    let address = word.split(':').next().unwrap_or_default().trim_end_matches(['.', '-']);
    address.parse::<std::net::Ipv4Addr>().is_ok_and(|a| !a.is_unspecified() && !a.is_loopback())
}

/// An address without `::` has eight groups; PCI addresses (`0000:00:1f.2`) and times (`10:20:30`)
/// have neither.
fn is_ipv6(word: &str) -> bool {
    // At the end of a sentence or before another colon.
    let inner = word.trim_end_matches(['.', '-', ':']);
    [word, inner].iter().any(|address| {
        let address = address.parse::<std::net::Ipv6Addr>();
        address.is_ok_and(|a| !a.is_unspecified() && !a.is_loopback())
    })
}

fn is_uuid(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    parts.iter().map(|p| p.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|p| hex(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_serial_numbers_go_and_the_rest_stays() {
        for (text, clean) in [
            (
                "root=UUID=2d1c0b4e-1111-4aaa-8bbb-0123456789ab ro",
                "root=UUID=00000000-0000-0000-0000-000000000000 ro",
            ),
            ("link 52:54:00:12:34:56 up", "link 00:00:00:00:00:00 up"),
            ("ip=10.1.2.3::10.1.2.1", "ip=00.0.0.0::00.0.0.0"),
            ("fe80::5054:ff:fe12:3456", "0000::0000:00:0000:0000"),
            ("fe80::1%eth0, fe80::1: 2001:db8::/32.", "0000::0%eth0, 0000::0: 0000:000::/32."),
            (":: ::1 [::] 1:2 a:b std::abc", ":: ::1 [::] 1:2 a:b std::abc"),
            ("enx525400abcdef-rx-0 wlx001122334455", "enx000000000000-rx-0 wlx000000000000"),
            (
                "enx52540012345 enx525400abcdefa lenx525400abcdef",
                "enx52540012345 enx525400abcdefa lenx525400abcdef",
            ),
            (
                "6.1.0-50-amd64 isolcpus=2,3 0000:00:1f.2 10:20:30",
                "6.1.0-50-amd64 isolcpus=2,3 0000:00:1f.2 10:20:30",
            ),
            (" 24:  1  0  IO-APIC 5-edge", " 24:  1  0  IO-APIC 5-edge"),
            ("", ""),
            ("größe\n127.0.0.1", "größe\n127.0.0.1"),
        ] {
            assert_eq!(scrub(text), clean);
            assert_eq!(scrub(clean), clean, "scrubbing twice changes nothing");
        }
    }
}
