//! Knobs about where things run, on this machine: plan, change, plan again, take back. Each test
//! works in namespaces, control groups or processes that it makes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bench;
mod cpusets;
mod network;
mod recorded;
mod threads;
mod units;
