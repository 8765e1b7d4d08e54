//! What a client asks over its WebSocket, and Binance's words for what is wrong with it.

use serde_json::{Value, json};

use super::stream::Route;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `SUBSCRIBE` to these.
    Subscribe(Vec<String>),
    /// `UNSUBSCRIBE` from these.
    Unsubscribe(Vec<String>),
    /// `LIST_SUBSCRIPTIONS`.
    List,
}

/// Reads a request: its number and what it asks, or the answer that says what is wrong.
pub fn read(text: &str) -> Result<(Value, Command), String> {
    let wrong = |code: u8, message: String, id: Value| {
        json!({ "code": code, "msg": message, "id": id }).to_string()
    };
    let request: Value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = format!("Invalid JSON: expected value at line {line} column {column}");
        wrong(3, message, Value::Null)
    })?;
    let id = request.get("id").cloned().unwrap_or(Value::Null);
    let is_number = id.as_u64().is_some() || id.as_str().is_some_and(|id| id.len() <= 36);
    if !is_number && !id.is_null() {
        let message = "Invalid request: request ID must be an unsigned integer";
        return Err(wrong(2, message.into(), Value::Null));
    }
    let Some(method) = request.get("method").and_then(Value::as_str) else {
        return Err(wrong(2, "Invalid request: missing field `method`".into(), id));
    };
    let streams = || {
        let names = request.get("params").and_then(Value::as_array);
        let names: Option<Vec<String>> = names
            .map(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect())
            .unwrap_or_default();
        names.ok_or_else(|| {
            wrong(2, "Invalid request: params must be a list of streams".into(), id.clone())
        })
    };
    let command = match method {
        "SUBSCRIBE" => Command::Subscribe(streams()?),
        "UNSUBSCRIBE" => Command::Unsubscribe(streams()?),
        "LIST_SUBSCRIPTIONS" => Command::List,
        other => {
            let message = format!(
                "Invalid request: unknown variant `{other}`, expected one of `SUBSCRIBE`, \
                 `UNSUBSCRIBE`, `LIST_SUBSCRIPTIONS`"
            );
            return Err(wrong(2, message, id));
        }
    };
    Ok((id, command))
}

/// The answer to a request that was done.
pub fn done(id: &Value, result: Value) -> String {
    json!({ "result": result, "id": id }).to_string()
}

/// The answer to a request for streams that the route does not have.
pub fn not_here(id: &Value, stream: &str, route: Route) -> String {
    let message = format!("Invalid request: stream {stream} is not served at {}", route.path());
    json!({ "code": 2, "msg": message, "id": id }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let names = || vec!["btcusdt@depth".to_owned()];
        for (text, id, command) in [
            (
                r#"{"method":"SUBSCRIBE","params":["btcusdt@depth"],"id":1}"#,
                json!(1),
                Command::Subscribe(names()),
            ),
            (
                r#"{"id":"x","params":["btcusdt@depth"],"method":"UNSUBSCRIBE"}"#,
                json!("x"),
                Command::Unsubscribe(names()),
            ),
            (r#"{"method":"LIST_SUBSCRIPTIONS"}"#, Value::Null, Command::List),
        ] {
            assert_eq!(read(text), Ok((id, command)), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_answered_with_its_code() {
        for (text, code, words) in [
            ("{", 3, "Invalid JSON"),
            ("[]", 2, "missing field `method`"),
            (r#"{"method":"SUBSCRIBE","params":["a"],"id":-1}"#, 2, "unsigned integer"),
            (r#"{"method":"SUBSCRIBE","params":[1],"id":1}"#, 2, "list of streams"),
            (r#"{"method":"SUBSCRIBE","id":1}"#, 2, "list of streams"),
            (r#"{"method":"DANCE","id":1}"#, 2, "unknown variant `DANCE`"),
        ] {
            let answer: Value = serde_json::from_str(&read(text).unwrap_err()).unwrap();
            assert_eq!(answer["code"], code, "{text}");
            assert!(answer["msg"].as_str().unwrap().contains(words), "{answer}");
        }
    }
}
