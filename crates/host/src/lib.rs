//! Judging a host: checks, and the audit that runs them.
//!
//! A check is a value: what it guards against, what a failure is expected to cost, and a pure
//! function from facts to a verdict. See [`checks`] for how to add one.
#![forbid(unsafe_code)]

mod audit;
mod check;
pub mod checks;
mod daemons;
mod interfaces;
mod parameters;
pub mod power;
mod remedy;
mod scope;
mod subject;
mod verdict;
mod waivers;

pub use audit::{Audit, audit};
pub use check::{Check, Cost, Kind, Needs};
pub use scope::{Intent, Scope};
pub use verdict::Verdict;
pub use waivers::{WaiverError, Waivers};
