//! The run as it is, and the way back.

use quietcore_measure::{Run, SCHEMA};
use serde_json::Value;

use crate::RenderError;

/// Why a file is not a run that this version can read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes are not JSON.
    #[error("not a run: expected the JSON that `quietcore … --format json` writes")]
    NotJson(#[source] serde_json::Error),
    /// It is JSON of something else.
    #[error(
        "not a run: expected an object with a whole number `schema`, as `quietcore … --format json` writes it"
    )]
    NotARun,
    /// A newer version wrote it.
    #[error(
        "the run has schema {found}, and this version of quietcore reads up to {supported}: \
         read it with the version that wrote it{writer}, or a later one"
    )]
    Newer {
        /// The schema number in the file.
        found: u64,
        /// The highest schema number that can be read.
        supported: u32,
        /// ` (1.2.3)`, or nothing if the file does not say.
        writer: String,
    },
    /// It has a known schema number and does not keep to the schema.
    #[error("the run does not keep to schema {schema} (`quietcore schema run` prints it)")]
    Shape {
        /// The schema number in the file.
        schema: u64,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

/// Reads a run. The schema number is looked at before anything else: a newer run is refused by
/// its number, not by the first field that happens to be unknown.
pub fn parse(bytes: &[u8]) -> Result<Run, ReadError> {
    let value: Value = serde_json::from_slice(bytes).map_err(ReadError::NotJson)?;
    let schema = value.get("schema").and_then(Value::as_u64).ok_or(ReadError::NotARun)?;
    if schema > u64::from(SCHEMA) {
        let writer = value.get("quietcore").and_then(Value::as_str);
        let writer = writer.map(|version| format!(" ({version})")).unwrap_or_default();
        return Err(ReadError::Newer { found: schema, supported: SCHEMA, writer });
    }
    // From the bytes again, not from `value`: the error then names line and column.
    serde_json::from_slice(bytes).map_err(|source| ReadError::Shape { schema, source })
}

/// The JSON schema of a run.
pub fn schema() -> String {
    let mut text = format!("{:#}", schemars::schema_for!(Run).as_value());
    text.push('\n');
    text
}

pub(crate) fn render(run: &Run) -> Result<String, RenderError> {
    let mut text = serde_json::to_string_pretty(run)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_run_is_refused_by_its_number() {
        let newer = format!(r#"{{"schema":{},"quietcore":"9.1.0","what":[]}}"#, SCHEMA + 1);
        let error = parse(newer.as_bytes()).unwrap_err().to_string();
        for part in [format!("schema {}", SCHEMA + 1), format!("up to {SCHEMA}"), "9.1.0".into()] {
            assert!(error.contains(&part), "{error}");
        }
    }

    #[test]
    fn what_is_no_run_is_refused_with_what_was_expected() {
        for garbage in
            [&b""[..], b"\x7fELF", b"[]", b"{}", br#"{"schema":"1"}"#, br#"{"schema":-1}"#]
        {
            let error = parse(garbage).unwrap_err().to_string();
            assert!(error.contains("not a run: expected"), "{error}");
        }
        let error = parse(br#"{"schema":1,"quietcore":1}"#).unwrap_err();
        assert!(error.to_string().contains("schema 1"), "{error}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("line 1 column"), "{source}");
    }

    #[test]
    fn the_schema_describes_every_kind_of_section() {
        let schema: Value = serde_json::from_str(&schema()).unwrap();
        let text = schema.to_string();
        for kind in ["table", "findings", "distribution", "timeline", "comparison"] {
            assert!(text.contains(&format!("\"const\":\"{kind}\"")), "{kind}");
        }
        assert_eq!(schema["title"], "Run");
    }
}
