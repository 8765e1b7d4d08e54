//! What a place holds.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a place holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Nothing: the file or folder is not there, no entry is set for the next boot.
    Absent,
    /// A text without the white space around it.
    Text(String),
    /// A whole file.
    File(Content),
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Content {
    /// What is in it.
    pub bytes: Bytes,
    /// Permission bits, as `0o644`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Bytes that are text in JSON where they can be, base64 otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Value {
    /// A text, trimmed.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(text.as_ref().trim().to_owned())
    }

    /// A file of root's with these permission bits.
    pub fn file(text: impl Into<String>, mode: u32) -> Self {
        Self::File(Content { bytes: Bytes(text.into().into_bytes()), mode, uid: 0, gid: 0 })
    }

    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// For tables: one line, a file by its size.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("(none)"),
            Self::Text(text) if text.is_empty() => f.write_str("(empty)"),
            Self::Text(text) => f.write_str(text),
            Self::File(content) => {
                write!(f, "{} bytes, mode {:o}", content.bytes.0.len(), content.mode)
            }
        }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Form::Text(text.to_owned()).serialize(serializer),
            Err(_) => Form::Base64(STANDARD.encode(&self.0)).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Self(text.into_bytes())),
            Form::Base64(text) => STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Text(String),
    Base64(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_survives_its_journal() {
        for value in [
            Value::Absent,
            Value::text(" 0-3\n"),
            Value::file("a\n", 0o755),
            Value::File(Content { bytes: Bytes(vec![0, 159, 146]), mode: 0o600, uid: 1, gid: 2 }),
        ] {
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value, "{json}");
        }
    }
}
