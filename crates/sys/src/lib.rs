//! Every touch of Linux except BPF.
//!
//! [`Host`] answers questions about a machine: files and typed queries, live or from a recording,
//! so that whatever is judged live can be judged again offline with the same result. The other
//! modules act on the running machine or watch it: [`tsc`], [`sched`], [`memory`], [`perf`],
//! [`writers`], [`broadcast`], [`live`], [`net`].
//!
//! This crate holds the workspace's `unsafe` code; each block says why it is sound.

pub mod broadcast;
pub mod clock;
pub mod host;
pub mod lease;
pub mod live;
pub mod memory;
pub mod net;
pub mod perf;
pub mod sched;
pub mod selftest;
pub mod tsc;
pub mod writers;

pub use host::{Host, HostError, Trouble};
