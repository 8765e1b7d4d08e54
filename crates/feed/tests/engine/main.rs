//! The engine against the replay venue, over real TLS. Nothing here depends on how long anything
//! takes: conditions are waited for, and every book that is shown is compared with the market's own.
#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod chunks;
mod faults;
mod foreign;
mod modes;
mod okx;
mod publish;
mod renewal;
mod setup;
mod truth;
