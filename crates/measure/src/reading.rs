//! A value, or the reason why there is none. Never 0 for "not measured".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of trying to read something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The value.
    Measured(T),
    /// This host, kernel or build does not have it; the text says what is missing.
    Unsupported(String),
    /// It should be there and could not be read; the text says why.
    Failed(String),
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Measured(value) => Some(value),
            Self::Unsupported(_) | Self::Failed(_) => None,
        }
    }

    /// Why there is no value; empty if there is one.
    pub fn why(&self) -> &str {
        match self {
            Self::Measured(_) => "",
            Self::Unsupported(why) | Self::Failed(why) => why,
        }
    }

    /// Applies `f` to the value and keeps the reason otherwise.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Measured(value) => Reading::Measured(f(value)),
            Self::Unsupported(why) => Reading::Unsupported(why),
            Self::Failed(why) => Reading::Failed(why),
        }
    }

    /// Chains a further step that may itself find nothing.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Self::Measured(value) => f(value),
            Self::Unsupported(why) => Reading::Unsupported(why),
            Self::Failed(why) => Reading::Failed(why),
        }
    }

    /// A view of the value, keeping the reason.
    pub fn as_ref(&self) -> Reading<&T> {
        match self {
            Self::Measured(value) => Reading::Measured(value),
            Self::Unsupported(why) => Reading::Unsupported(why.clone()),
            Self::Failed(why) => Reading::Failed(why.clone()),
        }
    }
}
