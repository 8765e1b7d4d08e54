//! What an audit says of one setting or state.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Cause;

/// The verdict of a check. `unknown` is a verdict, too: what could not be proven never passes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Proven to cost latency.
    Fail,
    /// Costs latency in some uses, or could not be proven harmful on this host.
    Warn,
    /// Could not be decided; the evidence says what was missing.
    Unknown,
    /// Would fail, but a waiver says why that is accepted.
    Waived,
    /// Proven to be as it should.
    Pass,
    /// Does not concern this host.
    NotApplicable,
}

impl Status {
    /// Every status, worst first.
    pub const ALL: [Self; 6] =
        [Self::Fail, Self::Warn, Self::Unknown, Self::Waived, Self::Pass, Self::NotApplicable];

    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Unknown => "unknown",
            Self::Waived => "waived",
            Self::Pass => "pass",
            Self::NotApplicable => "not_applicable",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One reading that a verdict stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The file, query or log the value came from.
    pub source: String,
    /// The value, as read or as summed up.
    pub value: String,
}

/// What a finding is expected to cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Impact {
    /// Expected size of one disturbance in microseconds; findings are ranked by it.
    pub us: f64,
    /// The same in words: how much, how often.
    pub text: String,
    /// Where the figure comes from: an article, the kernel's documentation, a measurement.
    pub origin: String,
}

/// An accepted failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiver {
    /// Why it is accepted.
    pub reason: String,
    /// The last day on which it is, as YYYY-MM-DD.
    pub expires: String,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The check, as `irq.effective-affinity`.
    pub id: String,
    /// What the check guards against.
    pub cause: Cause,
    /// The verdict.
    pub status: Status,
    /// The verdict in one line, naming this host's figures.
    pub title: String,
    /// What the verdict stands on.
    pub evidence: Vec<Evidence>,
    /// What it is expected to cost.
    pub impact: Impact,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The knob of `quietcore plan` that mends it and can take it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knob: Option<String>,
    /// The waiver that covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiver: Option<Waiver>,
}
