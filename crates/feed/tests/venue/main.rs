//! The replay venue, seen by a client that shares no code with the engine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;
mod faults;
mod market;
mod okx;
