//! The server's answer, as a client reads it.

use std::time::Duration;

use httparse::{EMPTY_HEADER, Header, Status};

use super::{HEAD_LIMIT, HEADERS, UpgradeError, accept, has_word, printable, values};

/// Reads the answer to a request that was made with `key` (RFC 6455, 4.1). None where its head has
/// not come whole; otherwise how many bytes it takes: what follows them is frames.
///
/// # Errors
///
/// When the answer is anything but the upgrade, and nothing but the upgrade.
pub fn response(bytes: &[u8], key: &str) -> Result<Option<usize>, UpgradeError> {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let size = match answer.parse(bytes) {
        Ok(Status::Complete(size)) if size <= HEAD_LIMIT => size,
        Ok(Status::Partial) if bytes.len() <= HEAD_LIMIT => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(UpgradeError::HeadTooLong),
        Err(error) => return Err(UpgradeError::NotHttp(error)),
    };
    let status = answer.code.unwrap_or_default();
    if status != 101 {
        return Err(refusal(status, answer.headers, &bytes[size..]));
    }
    if answer.version != Some(1) {
        return Err(UpgradeError::OldHttp);
    }
    check(answer.headers, key)?;
    Ok(Some(size))
}

/// The headers of a 101.
fn check(headers: &[Header<'_>], key: &str) -> Result<(), UpgradeError> {
    if !has_word(headers, "Upgrade", "websocket") {
        return Err(UpgradeError::Lacks("Upgrade: websocket"));
    }
    if !has_word(headers, "Connection", "Upgrade") {
        return Err(UpgradeError::Lacks("Connection: Upgrade"));
    }
    let mut proofs = values(headers, "Sec-WebSocket-Accept");
    let proof = proofs.next().ok_or(UpgradeError::Lacks("Sec-WebSocket-Accept"))?;
    if proof != accept(key).as_bytes() || proofs.next().is_some() {
        return Err(UpgradeError::Accept);
    }
    for name in ["Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"] {
        if let Some(value) = values(headers, name).find(|value| !value.is_empty()) {
            return Err(UpgradeError::Unasked { name, value: printable(value) });
        }
    }
    Ok(())
}

/// What an answer other than 101 means. `body` is as much of it as came with the head.
fn refusal(status: u16, headers: &[Header<'_>], body: &[u8]) -> UpgradeError {
    let body = body.trim_ascii_start();
    let is_page = body.starts_with(b"<")
        || values(headers, "Content-Type").any(|kind| {
            kind.get(..9).is_some_and(|start| start.eq_ignore_ascii_case(b"text/html"))
        });
    let said = if is_page { "a web page".to_owned() } else { printable(body) };
    let retry_after = values(headers, "Retry-After").find_map(seconds);
    match status {
        301 | 302 | 303 | 307 | 308 => {
            let location = values(headers, "Location").next().map(printable).unwrap_or_default();
            UpgradeError::Redirect { status, location }
        }
        400 => UpgradeError::BadRequest { said },
        401 => UpgradeError::Login { said },
        403 => UpgradeError::Forbidden { said },
        404 => UpgradeError::NotFound { said },
        418 => UpgradeError::Banned { retry_after, said },
        429 => UpgradeError::TooMany { retry_after, said },
        451 => UpgradeError::Restricted { said },
        500..=599 => UpgradeError::Server { status, retry_after, said },
        _ if is_page => UpgradeError::WebPage { status },
        _ => UpgradeError::Status { status, said },
    }
}

/// `Retry-After` in seconds (RFC 9110, 10.2.3). The other form, a date, would need a clock that
/// agrees with the server's; no venue here sends it.
fn seconds(value: &[u8]) -> Option<Duration> {
    Some(Duration::from_secs(std::str::from_utf8(value).ok()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

    fn refused(answer: &str) -> UpgradeError {
        response(answer.as_bytes(), KEY).unwrap_err()
    }

    #[test]
    fn a_good_answer_is_taken_whole_and_nothing_after_it() {
        let with_frames = format!("{GOOD}\u{1}frames");
        assert_eq!(response(with_frames.as_bytes(), KEY), Ok(Some(GOOD.len())));
        for end in 0..GOOD.len() {
            assert_eq!(response(&GOOD.as_bytes()[..end], KEY), Ok(None), "{end} bytes");
        }
    }

    #[test]
    fn names_and_words_are_read_in_any_case_and_order() {
        let other = "HTTP/1.1 101 \r\nsec-websocket-accept:  s3pPLMBiTxaQ9kYGzzhZRbK+xOo= \r\n\
            CONNECTION: keep-alive, UPGRADE\r\nserver: x\r\nupgrade: WebSocket\r\n\r\n";
        assert_eq!(response(other.as_bytes(), KEY), Ok(Some(other.len())));
    }

    #[test]
    fn an_upgrade_that_is_not_ours_is_refused() {
        let without = |line: &str| refused(&GOOD.replace(line, ""));
        let with = |line: &str| refused(&GOOD.replace("\r\n\r\n", &format!("\r\n{line}\r\n\r\n")));
        use UpgradeError::{Accept, Lacks, OldHttp, Unasked};
        assert_eq!(without("Upgrade: websocket\r\n"), Lacks("Upgrade: websocket"));
        assert_eq!(without("Connection: Upgrade\r\n"), Lacks("Connection: Upgrade"));
        assert_eq!(
            without("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
            Lacks("Sec-WebSocket-Accept")
        );
        assert_eq!(refused(&GOOD.replace("s3pP", "S3pP")), Accept);
        assert_eq!(with("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), Accept);
        assert_eq!(refused(&GOOD.replace("HTTP/1.1", "HTTP/1.0")), OldHttp);
        assert_eq!(refused(&GOOD.replace("websocket", "h2c")), Lacks("Upgrade: websocket"));
        for name in ["Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"] {
            let value = "permessage-deflate".to_owned();
            assert_eq!(with(&format!("{name}: {value}")), Unasked { name, value });
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        let answer = |head: &str, body: &str| refused(&format!("HTTP/1.1 {head}\r\n\r\n{body}"));
        let json = r#"{"code":-1003,"msg":"IP banned"}"#;
        let table = [
            ("302 Found\r\nLocation: http://portal.lan/login", "", "portal.lan/login", true),
            ("301 Moved", "", "captive portal", true),
            ("308 Permanent\r\nLocation: wss://b", "", "set it as the host", true),
            ("400 Bad Request", json, "IP banned", true),
            ("401 Unauthorized", "", "not a public one", true),
            ("403 Forbidden", "<html>", "firewall", false),
            ("404 Not Found", "", "/market", true),
            ("418 I'm a teapot\r\nRetry-After: 120", json, "banned (418) for 120 s", false),
            ("429 Too Many\r\nRetry-After: 7", "", "(429) for 7 s", false),
            ("451 Unavailable", "restricted location", "location (451)", true),
            (
                "503 Unavailable\r\nRetry-After: soon",
                "down\r\n\u{1b}[2J",
                "later. It says: down",
                false,
            ),
            ("200 OK\r\nContent-Type: Text/HTML", "", "web page", false),
            ("200 OK", " \n<!doctype html>", "web page", false),
            ("200 OK", "pong", "not 101", false),
            ("407 Proxy Authentication Required", "", "status is 407", false),
        ];
        for (head, body, said, is_permanent) in table {
            let error = answer(head, body);
            assert!(error.to_string().contains(said), "{head}: {error}");
            assert!(!error.to_string().contains('\u{1b}'), "{head}: {error}");
            assert_eq!(error.is_permanent(), is_permanent, "{head}: {error}");
        }
    }

    #[test]
    fn the_time_to_wait_is_kept() {
        let wait = |head: &str| refused(&format!("HTTP/1.1 {head}\r\n\r\n")).retry_after();
        assert_eq!(wait("418 x\r\nRetry-After: 259200"), Some(Duration::from_secs(259_200)));
        assert_eq!(wait("429 x\r\nretry-after: 0"), Some(Duration::ZERO));
        assert_eq!(wait("503 x\r\nRetry-After: 30"), Some(Duration::from_secs(30)));
        assert_eq!(wait("429 x\r\nRetry-After: -1"), None);
        assert_eq!(wait("429 x\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(wait("403 x\r\nRetry-After: 9"), None);
    }

    #[test]
    fn what_is_not_http_or_never_ends_is_an_error() {
        // A TLS alert, a mail server, an older web.
        for bytes in [&b"\x15\x03\x01\x00\x02\x02\x16"[..], b"220 mail ESMTP\r\n", b"<html>"] {
            assert!(matches!(response(bytes, KEY), Err(UpgradeError::NotHttp(_))), "{bytes:?}");
        }
        let long = format!("HTTP/1.1 101 x\r\nX: {}", "y".repeat(HEAD_LIMIT));
        assert_eq!(refused(&long), UpgradeError::HeadTooLong);
        assert_eq!(refused(&format!("{long}\r\n\r\n")), UpgradeError::HeadTooLong);
        let many = format!("HTTP/1.1 101 x\r\n{}", "X: y\r\n".repeat(HEADERS + 1));
        assert_eq!(refused(&many), UpgradeError::HeadTooLong);
    }
}
