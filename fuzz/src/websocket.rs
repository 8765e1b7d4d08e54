//! WebSocket: frames, and the opening handshake of both ends.

use quietcore_feed::websocket::upgrade::{key, request, response, server};
use quietcore_feed::websocket::{
    Decoder, Limits, Opcode, Role, Utf8, encode, encode_close, encode_fragment,
};

fn limits() -> Limits {
    Limits { message: 5_000, buffer: 16, utf8: Utf8::Check }
}

/// Every kind of frame, from a server and from a client.
pub fn streams() -> Vec<Vec<u8>> {
    [None, Some([1, 2, 3, 4])]
        .map(|mask| {
            let mut bytes = Vec::new();
            encode(Opcode::Text, "{\"e\":\"µ\"}".as_bytes(), mask, &mut bytes);
            encode_fragment(false, Opcode::Text, b"{\"e\":", mask, &mut bytes);
            encode(Opcode::Ping, b"1234", mask, &mut bytes);
            encode_fragment(true, Opcode::Continuation, b"1}", mask, &mut bytes);
            encode(Opcode::Binary, &[7; 130], mask, &mut bytes);
            encode(Opcode::Pong, b"", mask, &mut bytes);
            encode_close(Some(1000), "done", mask, &mut bytes);
            bytes
        })
        .to_vec()
}

/// What is read, and the error, do not depend on where the stream is cut.
pub fn stream(bytes: &[u8]) {
    for role in [Role::Client, Role::Server] {
        let whole = read(role, bytes, bytes.len());
        for size in [1, 2, 5, 64] {
            assert_eq!(read(role, bytes, size), whole, "pieces of {size}");
        }
    }
}

fn read(role: Role, bytes: &[u8], size: usize) -> Vec<String> {
    let mut decoder = Decoder::with_role(role, limits());
    let mut events = Vec::new();
    for mut piece in bytes.chunks(size.max(1)) {
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(incoming)) => events.push(format!("{incoming:?}")),
                Ok(None) => break,
                Err(error) => {
                    assert!((1002..=1009).contains(&error.close_code()));
                    events.push(error.to_string());
                    return events;
                }
            }
        }
    }
    events
}

const RANDOM: [u8; 16] = *b"the sample nonce";

/// The answer that is wanted, and some that are not.
pub fn responses() -> Vec<Vec<u8>> {
    let mut seeds = vec![server::answer(&key(RANDOM))];
    seeds.extend(
        [
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Type: application/json\r\n\r\n{\"code\":-1003}",
            "HTTP/1.1 302 Found\r\nLocation: http://portal/\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>\u{1b}[31mwelcome",
        ]
        .map(|text| text.as_bytes().to_vec()),
    );
    seeds
}

/// An answer is taken only when it is whole, and an error's text is one line of plain text.
pub fn answer(bytes: &[u8]) {
    match response(bytes, &key(RANDOM)) {
        Ok(Some(size)) => {
            assert!(size <= bytes.len());
            assert_eq!(response(&bytes[..size], &key(RANDOM)), Ok(Some(size)));
            assert_eq!(response(&bytes[..size - 1], &key(RANDOM)), Ok(None));
        }
        Ok(None) => {}
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error}"),
    }
}

/// A WebSocket's request and a document's.
pub fn requests() -> Vec<Vec<u8>> {
    let document = b"GET /fapi/v1/depth?symbol=BTCUSDT HTTP/1.1\r\nHost: h\r\n\r\n";
    vec![request("host:9443", "/public/ws/btcusdt@depth", &key(RANDOM)), document.to_vec()]
}

/// A request is taken only when it is whole; each that is not served is answered.
pub fn asked(bytes: &[u8]) {
    match server::request(bytes) {
        Ok(Some(request)) => {
            assert!(request.size <= bytes.len());
            assert!(request.key.is_none_or(|key| key.len() == 24));
        }
        Ok(None) => {}
        Err(error) => assert!(error.answer().starts_with(b"HTTP/1.1 4")),
    }
}
