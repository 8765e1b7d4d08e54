//! HTTP/1.1, as much of it as a REST answer and a WebSocket upgrade need.

use tungstenite::handshake::derive_accept_key;

/// A request's head is never longer.
pub(super) const LONGEST_HEAD: usize = 16 << 10;

/// A request, without its body (no request here has one).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `GET`, …
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The key of a WebSocket upgrade, if it asks for one.
    pub upgrade: Option<String>,
    /// Whether the client wants the connection closed after the answer.
    pub closes: bool,
    /// Bytes of the head.
    pub length: usize,
}

impl Head {
    /// Reads a head; nothing while its end has not come.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, httparse::Error> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(length) = request.parse(bytes)? else { return Ok(None) };
        let header = |name: &str| {
            let found =
                request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            found.and_then(|header| std::str::from_utf8(header.value).ok())
        };
        let has = |name: &str, word: &str| {
            header(name).is_some_and(|text| {
                text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
            })
        };
        let is_upgrade = has("upgrade", "websocket") && has("connection", "upgrade");
        Ok(Some(Self {
            method: request.method.unwrap_or("").to_owned(),
            target: request.path.unwrap_or("").to_owned(),
            upgrade: header("sec-websocket-key").filter(|_| is_upgrade).map(str::to_owned),
            closes: has("connection", "close") || request.version == Some(0),
            length,
        }))
    }

    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or("")
    }
}

/// An answer of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
    pub(super) retry_after: Option<u64>,
    /// What the client has used of its weight this minute.
    pub(super) weight: Option<u32>,
}

impl Answer {
    pub(super) fn new(status: u16, body: String) -> Self {
        Self { status, body, retry_after: None, weight: None }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            418 => "I'm a teapot",
            429 => "Too Many Requests",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let mut head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: application/json;charset=UTF-8\r\n\
             Content-Length: {}\r\n",
            self.status,
            self.body.len()
        );
        if let Some(seconds) = self.retry_after {
            head.push_str(&format!("Retry-After: {seconds}\r\n"));
        }
        if let Some(weight) = self.weight {
            head.push_str(&format!("x-mbx-used-weight-1m: {weight}\r\n"));
        }
        head.push_str("\r\n");
        head.push_str(&self.body);
        head.into_bytes()
    }
}

/// The answer that makes a connection a WebSocket (RFC 6455 section 4.2.2).
pub(super) fn switching(key: &str) -> Vec<u8> {
    let accept = derive_accept_key(key.as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let text = b"GET /fapi/v1/depth?symbol=BTCUSDT&limit=5 HTTP/1.1\r\nHost: x\r\n\r\nrest";
        for end in 0..text.len() - 5 {
            assert_eq!(Head::read(&text[..end]), Ok(None));
        }
        let head = Head::read(text).unwrap().unwrap();
        assert_eq!((head.path(), head.length), ("/fapi/v1/depth", text.len() - 4));
        assert_eq!(
            (head.parameter("symbol"), head.parameter("limit")),
            (Some("BTCUSDT"), Some("5"))
        );
        assert_eq!((head.parameter("lim"), head.upgrade.as_deref()), (None, None));
        assert!(Head::read(b"\0\0 nonsense\r\n\r\n").is_err());
    }

    #[test]
    fn the_accept_key_is_that_of_the_standards_example() {
        let answer = String::from_utf8(switching("dGhlIHNhbXBsZSBub25jZQ==")).unwrap();
        assert!(answer.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }
}
