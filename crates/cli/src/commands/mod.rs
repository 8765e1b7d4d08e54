//! The subcommands, one file each: arguments, and a `run` that glues libraries together.

pub mod apply;
pub mod audit;
pub mod compare;
pub mod completions;
pub mod confirm;
pub mod exec;
pub mod explain;
pub mod feed;
pub mod install_service;
pub mod jitter;
pub mod offcpu;
pub mod place;
pub mod plan;
pub mod power;
pub mod profile;
pub mod report;
pub mod rollback;
pub mod schema;
pub mod selftest;
pub mod spikes;
mod stacks;
pub mod status;
pub mod tour;
mod trace;
mod tuning;
pub mod verify;
