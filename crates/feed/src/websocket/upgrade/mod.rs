//! The opening handshake over HTTP/1.1 (RFC 6455, 4), of both ends: bytes in, bytes out.

mod error;
mod response;
pub mod server;

pub use error::UpgradeError;
pub use response::response;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// The longest head of a request or an answer, in bytes, the empty line included.
pub const HEAD_LIMIT: usize = 16 << 10;

/// The most header lines.
const HEADERS: usize = 64;

/// The value of `Sec-WebSocket-Key` for 16 random bytes, new for every connection (RFC 6455, 4.1).
pub fn key(random: [u8; 16]) -> String {
    STANDARD.encode(random)
}

/// The value of `Sec-WebSocket-Accept` that proves that a server has read `key` (RFC 6455, 4.2.2).
pub fn accept(key: &str) -> String {
    let proof = [key.as_bytes(), b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &proof))
}

/// A client's request (RFC 6455, 4.1). `host` is with the port if it is not the scheme's own,
/// `path` with the query. What may not stand in a request line is percent-encoded, so that no
/// symbol's name can end the line.
pub fn request(host: &str, path: &str, key: &str) -> Vec<u8> {
    let (host, path) = (visible(host), visible(path));
    let slash = if path.starts_with('/') { "" } else { "/" };
    let agent = concat!("quietcore-feed/", env!("CARGO_PKG_VERSION"));
    format!(
        "GET {slash}{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\
         User-Agent: {agent}\r\n\r\n"
    )
    .into_bytes()
}

fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// All values of a header, without the space around them.
fn values<'a>(headers: &[httparse::Header<'a>], name: &str) -> impl Iterator<Item = &'a [u8]> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| header.value.trim_ascii())
}

/// Whether a header that is a list of words holds this one, in any case.
fn has_word(headers: &[httparse::Header<'_>], name: &str, word: &str) -> bool {
    values(headers, name)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// What a stranger said, fit for a terminal and one line.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    shown.take(200).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rfcs_key_gives_the_rfcs_proof() {
        // RFC 6455, 1.3.
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        assert_eq!(key(bytes), "AQIDBAUGBwgJCgsMDQ4PEA==");
        assert_eq!(key(*b"the sample nonce"), "dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_request_is_what_the_rfc_asks_for_and_nothing_can_break_out_of_its_first_line() {
        let text = |host, path| String::from_utf8(request(host, path, "k")).unwrap();
        let plain = text("fstream.binance.com", "/public/stream?streams=btcusdt@depth/a@b");
        assert!(plain.starts_with(
            "GET /public/stream?streams=btcusdt@depth/a@b HTTP/1.1\r\nHost: fstream.binance.com\r\n"
        ));
        for line in ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"] {
            assert!(plain.contains(&format!("\r\n{line}\r\n")), "{line}");
        }
        assert!(plain.contains("\r\nSec-WebSocket-Key: k\r\n") && plain.ends_with("\r\n\r\n"));
        let hostile = text("h\r\nX: y", "ws/a b\r\nEvil: 1\r\né");
        assert!(hostile.starts_with(
            "GET /ws/a%20b%0D%0AEvil:%201%0D%0A%C3%A9 HTTP/1.1\r\nHost: h%0D%0AX:%20y\r\n"
        ));
        assert_eq!(hostile.lines().count(), plain.lines().count());
    }
}
