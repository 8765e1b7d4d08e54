//! The subcommands, one file each: arguments, and a `run` that glues libraries together.

pub mod audit;
pub mod compare;
pub mod completions;
pub mod exec;
pub mod jitter;
pub mod power;
pub mod report;
pub mod schema;
pub mod tour;
