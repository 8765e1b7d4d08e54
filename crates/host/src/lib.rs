//! Judging a host: checks, and the audit that runs them.
//!
//! A check is a value: what it guards against, what a failure is expected to cost, and a pure
//! function from facts to a verdict. See [`checks`] for how to add one.
#![forbid(unsafe_code)]

mod audit;
pub mod boot;
mod check;
pub mod checks;
mod daemons;
pub mod drift;
pub mod export;
mod interfaces;
pub mod knobs;
mod parameters;
pub mod placement;
pub mod places;
pub mod plan;
pub mod planner;
pub mod power;
pub mod profile;
pub mod remedies;
mod remedy;
mod scope;
pub mod service;
mod subject;
pub mod tuning;
mod verdict;
mod waivers;

pub use audit::{Audit, audit};
pub use check::{Check, Cost, Kind, Needs};
pub use scope::{Intent, Scope};
pub use verdict::Verdict;
pub use waivers::{WaiverError, Waivers};
