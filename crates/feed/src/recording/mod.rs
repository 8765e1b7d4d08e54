//! Files of recorded messages: `<receive time in ns> <JSON>`, a line each, plain or gzipped.
//!
//! Blank lines and those that begin with `#` say nothing. The JSON is a message as it came from the
//! venue, within the wrapper of a combined stream or bare; snapshots that were asked for stand among
//! them as they came.

pub mod check;
mod read;
mod write;

pub use read::{Line, ReadError, Reader};
pub use write::{WriteError, Writer};
