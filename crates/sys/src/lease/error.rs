//! Why a lease could not be had or changed.

use std::io;
use std::path::PathBuf;

use super::{Outcome, Slot, TakenBack, Value};
use crate::host::Trouble;

/// Why a lease could not be had or changed.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The state folder or a file in it.
    #[error("{}: {source}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
    /// Another process is at it.
    #[error("another quietcore is changing this host (process {}; it holds {})", holder.map_or("unknown".to_owned(), |pid| pid.to_string()), path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Its holder, if it said so.
        holder: Option<u32>,
    },
    /// The journal was written on another machine.
    #[error("{}: was written on another machine (its machine-id differs): nothing in it is true of this one; remove it if this machine is a copy of that one", path.display())]
    OtherMachine {
        /// The journal.
        path: PathBuf,
    },
    /// Lines of the journal make no sense.
    #[error("{}: damaged (line {}): take back what it still knows with `rollback`, it keeps a copy", path.display(), lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Counted from 1.
        lines: Vec<usize>,
    },
    /// What a place holds could not be read, so it could not be given back: nothing was changed.
    #[error("{slot}: {why}; nothing was changed, for what cannot be read cannot be given back")]
    Unreadable {
        /// The place.
        slot: Box<Slot>,
        /// Why.
        why: Trouble,
    },
    /// A place did not take its value; everything done before was taken back.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
}

/// A place that did not take its value.
#[derive(Debug, thiserror::Error)]
#[error("{slot}: {why} (writing `{value}`){}", left(.taken_back))]
pub struct Refusal {
    /// The place.
    pub slot: Slot,
    /// What was written.
    pub value: Value,
    /// Why, or what it reads instead.
    pub why: String,
    /// What became of the changes before it.
    pub taken_back: Vec<TakenBack>,
}

fn left(taken_back: &[TakenBack]) -> String {
    let mut stuck =
        taken_back.iter().filter(|t| matches!(t.outcome, Outcome::Failed(_))).peekable();
    match stuck.peek() {
        None => "; everything done before it was taken back".to_owned(),
        Some(_) => {
            let names: Vec<String> = stuck.map(|t| t.slot.to_string()).collect();
            format!("; could not be taken back: {}", names.join(", "))
        }
    }
}
