//! What is asked of a lease, and what became of it.

use super::{Slot, Value};

/// A place and the value it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The place.
    pub slot: Slot,
    /// The value.
    pub want: Value,
    /// Whether a refusal is told and passed over (an interrupt that the kernel manages itself)
    /// instead of taking everything back.
    pub optional: bool,
}

/// A place that was not as wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The place.
    pub slot: Slot,
    /// Why an optional change was refused.
    pub refused: Option<String>,
}

/// What became of a place when its lease was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// The place.
    pub slot: Slot,
    /// What it held before the lease.
    pub before: Value,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a place when its lease was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds again what it held.
    Restored,
    /// It held that already.
    Already,
    /// Somebody else has changed it since: left as it is.
    Kept {
        /// What it holds.
        now: Value,
        /// What we had given.
        ours: Value,
    },
    /// A reboot has made it anew.
    Rebooted,
    /// It is gone: the process has ended, the device was taken out.
    Gone,
    /// It could not be put back; the journal keeps it for another try.
    Failed(String),
}
