//! Takes out of an answer what identifies a host or its owner and what no check reads.

use serde_json::Value;

/// Replaces MAC addresses, IP addresses and UUIDs by zeros of the same form.
///
/// What the init process is told (after ` -- ` on the kernel command line) is not a kernel
/// parameter and may be anything; it is cut off by [`crate::host::Host::command_line`].
pub fn scrub(text: &str) -> String {
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

pub(super) fn scrub_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            let clean = scrub(text);
            if clean != *text {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(scrub_value),
        Value::Object(map) => map.values_mut().for_each(scrub_value),
        _ => {}
    }
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
    let address = word.split(':').next().unwrap_or_default();
    address.parse::<std::net::Ipv4Addr>().is_ok_and(|a| !a.is_unspecified() && !a.is_loopback())
}

/// At least three groups: `::` and `a:b` are found in texts that hold no address (PCI addresses,
/// times), and a time like `10:20:30` must survive.
fn is_ipv6(word: &str) -> bool {
    word.matches(':').count() >= 3
        && word.parse::<std::net::Ipv6Addr>().is_ok_and(|a| !a.is_unspecified() && !a.is_loopback())
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
