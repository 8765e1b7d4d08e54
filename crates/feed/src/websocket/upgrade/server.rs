//! A client's request, as a server reads it, and the answer to it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use httparse::{EMPTY_HEADER, Header, Status};
use thiserror::Error;

use super::{HEAD_LIMIT, HEADERS, accept, has_word, values};

/// A request for a WebSocket, or for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The path, with the query.
    pub target: String,
    /// The key to answer with, if a WebSocket is asked for.
    pub key: Option<String>,
    /// How many bytes the head takes.
    pub size: usize,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// Not HTTP at all.
    #[error("the request is not HTTP ({0})")]
    NotHttp(httparse::Error),
    /// No end of the head in sight.
    #[error("the request's head is longer than {HEAD_LIMIT} bytes or {HEADERS} lines")]
    HeadTooLong,
    /// Only GET is served.
    #[error("the request's method is not GET")]
    Method,
    /// A request with a body.
    #[error("the request has a body")]
    Body,
    /// An upgrade without a header that belongs to it.
    #[error("the request lacks `{0}`")]
    Lacks(&'static str),
    /// `Sec-WebSocket-Key` is not 16 bytes in base64, once.
    #[error("the request's Sec-WebSocket-Key is not 16 bytes in base64")]
    Key,
    /// Another `Sec-WebSocket-Version` than 13.
    #[error("the request's Sec-WebSocket-Version is not 13")]
    Version,
}

impl RequestError {
    /// What to send before hanging up.
    pub fn answer(self) -> Vec<u8> {
        let head = match self {
            Self::NotHttp(_) | Self::Body | Self::Lacks(_) | Self::Key => "400 Bad Request",
            Self::HeadTooLong => "431 Request Header Fields Too Large",
            Self::Method => "405 Method Not Allowed\r\nAllow: GET",
            // RFC 6455, 4.4.
            Self::Version => "426 Upgrade Required\r\nSec-WebSocket-Version: 13",
        };
        let body = format!("{self}\n");
        let length = body.len();
        format!(
            "HTTP/1.1 {head}\r\nConnection: close\r\nContent-Type: text/plain\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// Reads a request's head (RFC 6455, 4.2.1); none where it has not come whole. Extensions and
/// subprotocols that are offered are not taken, which is what leaving them unanswered says.
///
/// # Errors
///
/// When it cannot be served: see [`RequestError::answer`].
pub fn request(bytes: &[u8]) -> Result<Option<Request>, RequestError> {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let size = match request.parse(bytes) {
        Ok(Status::Complete(size)) if size <= HEAD_LIMIT => size,
        Ok(Status::Partial) if bytes.len() <= HEAD_LIMIT => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(RequestError::HeadTooLong),
        Err(error) => return Err(RequestError::NotHttp(error)),
    };
    if request.method != Some("GET") {
        return Err(RequestError::Method);
    }
    let headers = &*request.headers;
    let has_body = values(headers, "Content-Length").any(|length| length != b"0")
        || values(headers, "Transfer-Encoding").next().is_some();
    if has_body {
        return Err(RequestError::Body);
    }
    // HTTP/1.0 knows no upgrade: such a request is for a document.
    let wants_upgrade = request.version == Some(1) && has_word(headers, "Upgrade", "websocket");
    let key = if wants_upgrade { Some(upgrade(headers)?) } else { None };
    let target = request.path.unwrap_or_default().to_owned();
    Ok(Some(Request { target, key, size }))
}

/// The key of a request for a WebSocket.
fn upgrade(headers: &[Header<'_>]) -> Result<String, RequestError> {
    if values(headers, "Host").next().is_none() {
        return Err(RequestError::Lacks("Host"));
    }
    if !has_word(headers, "Connection", "Upgrade") {
        return Err(RequestError::Lacks("Connection: Upgrade"));
    }
    if !values(headers, "Sec-WebSocket-Version").eq([b"13"]) {
        return Err(RequestError::Version);
    }
    let mut keys = values(headers, "Sec-WebSocket-Key");
    let key = keys.next().ok_or(RequestError::Lacks("Sec-WebSocket-Key"))?;
    let is_key = STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16);
    match String::from_utf8(key.to_vec()) {
        Ok(key) if is_key && keys.next().is_none() => Ok(key),
        _ => Err(RequestError::Key),
    }
}

/// The answer that opens a WebSocket (RFC 6455, 4.2.2). What follows it is frames.
pub fn answer(key: &str) -> Vec<u8> {
    let proof = accept(key);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {proof}\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::{key, request as asked, response};
    use super::*;

    fn good() -> String {
        String::from_utf8(asked("venue.example:9443", "/ws/btcusdt@depth?x=1", &key([7; 16])))
            .unwrap()
    }

    #[test]
    fn what_we_ask_we_understand_and_what_we_answer_we_take() {
        let mut bytes = good().into_bytes();
        for end in 0..bytes.len() {
            assert_eq!(request(&bytes[..end]), Ok(None), "{end} bytes");
        }
        let size = bytes.len();
        bytes.extend(b"frames");
        let target = "/ws/btcusdt@depth?x=1".to_owned();
        let read = Request { target, key: Some(key([7; 16])), size };
        assert_eq!(request(&bytes), Ok(Some(read)));
        let answer = answer(&key([7; 16]));
        assert_eq!(response(&answer, &key([7; 16])), Ok(Some(answer.len())));
        assert!(response(&answer, &key([8; 16])).is_err(), "another key, another proof");
    }

    #[test]
    fn a_request_for_a_document_is_none_for_a_websocket() {
        for version in ["1.0", "1.1"] {
            let bytes = format!("GET /fapi/v1/depth?symbol=X HTTP/{version}\r\nHost: h\r\n\r\n");
            let (target, size) = ("/fapi/v1/depth?symbol=X".to_owned(), bytes.len());
            assert_eq!(request(bytes.as_bytes()), Ok(Some(Request { target, key: None, size })));
        }
    }

    #[test]
    fn what_cannot_be_served_is_answered() {
        use RequestError::{Body, HeadTooLong, Key, Lacks, Method, Version};
        let changed = |from: &str, to: &str| {
            let bytes = good().replace(from, to);
            assert_ne!(bytes, good(), "{from}");
            request(bytes.as_bytes()).unwrap_err()
        };
        let many = format!("\r\n{}\r\n", "X: y\r\n".repeat(HEADERS));
        let long = format!("/{}", "x".repeat(HEAD_LIMIT));
        let table = [
            (changed("GET", "POST"), Method, "405"),
            (changed("Host: venue.example:9443\r\n", ""), Lacks("Host"), "400"),
            (changed("Connection: Upgrade\r\n", ""), Lacks("Connection: Upgrade"), "400"),
            (changed("Sec-WebSocket-Key", "X-Key"), Lacks("Sec-WebSocket-Key"), "400"),
            (changed(&key([7; 16]), "c2hvcnQ="), Key, "400"),
            (changed("Version: 13", "Version: 8"), Version, "426"),
            (changed("Sec-WebSocket-Version: 13\r\n", ""), Version, "426"),
            (changed("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nhello"), Body, "400"),
            (changed("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n"), Body, "400"),
            (changed("\r\n\r\n", &many), HeadTooLong, "431"),
            (changed("/ws", &long), HeadTooLong, "431"),
        ];
        for (error, expected, status) in table {
            assert_eq!(error, expected);
            let answer = String::from_utf8(error.answer()).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{answer}");
        }
        assert!(matches!(request(b"\x16\x03\x01\x02"), Err(RequestError::NotHttp(_))));
    }
}
