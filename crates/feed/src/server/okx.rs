//! What a client asks of OKX over its WebSocket, and OKX's answers.
//!
//! <https://www.okx.com/docs-v5/en/#overview-websocket-subscribe>

use serde_json::{Value, json};

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OkxCommand {
    /// The word `ping`, which is answered by the word `pong`.
    Ping,
    /// Subscribe to the books of these instruments (`BTC-USDT-SWAP`).
    Subscribe(Vec<String>),
    /// Unsubscribe from them.
    Unsubscribe(Vec<String>),
}

/// Reads a request, or gives the answer that says what is wrong.
pub fn read(text: &str) -> Result<OkxCommand, String> {
    if text == "ping" {
        return Ok(OkxCommand::Ping);
    }
    let wrong = || error("60012", &format!("Invalid request: {text}"));
    let request: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let arguments = request.get("args").and_then(Value::as_array).ok_or_else(wrong)?;
    let mut instruments = Vec::new();
    for argument in arguments {
        let word = |key: &str| argument.get(key).and_then(Value::as_str);
        let (Some(channel), Some(instrument)) = (word("channel"), word("instId")) else {
            return Err(wrong());
        };
        if channel != "books" {
            return Err(not_there(channel, instrument));
        }
        instruments.push(instrument.to_owned());
    }
    match request.get("op").and_then(Value::as_str) {
        Some("subscribe") => Ok(OkxCommand::Subscribe(instruments)),
        Some("unsubscribe") => Ok(OkxCommand::Unsubscribe(instruments)),
        _ => Err(wrong()),
    }
}

fn error(code: &str, message: &str) -> String {
    json!({ "event": "error", "code": code, "msg": message, "connId": "replay" }).to_string()
}

/// The answer to a request for what there is not.
pub(super) fn not_there(channel: &str, instrument: &str) -> String {
    let message = format!("Wrong URL or channel:{channel},instId:{instrument} doesn't exist.");
    error("60018", &message)
}

/// The answer to a request that was done.
pub(super) fn done(event: &str, instrument: &str) -> String {
    let argument = json!({ "channel": "books", "instId": instrument });
    json!({ "event": event, "arg": argument, "connId": "replay" }).to_string()
}

/// The symbol of an instrument: `BTC-USDT-SWAP` and `BTC-USDT` are `BTCUSDT`.
pub(super) fn symbol(instrument: &str) -> String {
    instrument.trim_end_matches("-SWAP").replace('-', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_or_refused() {
        let books = r#""args":[{"channel":"books","instId":"BTC-USDT-SWAP"}]"#;
        let names = || vec!["BTC-USDT-SWAP".to_owned()];
        assert_eq!(read("ping"), Ok(OkxCommand::Ping));
        let ask = |op: &str| read(&format!(r#"{{"op":"{op}",{books}}}"#));
        assert_eq!(ask("subscribe"), Ok(OkxCommand::Subscribe(names())));
        assert_eq!(ask("unsubscribe"), Ok(OkxCommand::Unsubscribe(names())));
        for (text, code) in [
            ("pong", "60012"),
            (r#"{"op":"subscribe"}"#, "60012"),
            (r#"{"op":"login","args":[]}"#, "60012"),
            (r#"{"op":"subscribe","args":[{"channel":"books5","instId":"X"}]}"#, "60018"),
        ] {
            let answer: Value = serde_json::from_str(&read(text).unwrap_err()).unwrap();
            assert_eq!(answer["code"], code, "{text}");
        }
        assert_eq!(symbol("BTC-USDT-SWAP"), "BTCUSDT");
    }
}
