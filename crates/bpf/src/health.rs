//! Whether a program works here, which is not whether it has seen anything.

use serde::Serialize;

/// What became of one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Its name.
    pub program: &'static str,
    /// Whether it works.
    pub state: State,
}

/// Whether a program works here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
pub enum State {
    /// It is attached.
    Ok,
    /// This kernel lacks what it hooks into.
    Unsupported(String),
    /// The kernel has the hook and refused the program.
    Broken(String),
    /// It was not asked for, or another variant of it serves.
    NotApplicable(String),
}
