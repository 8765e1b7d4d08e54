//! Spikes: the jitter loop, the lateness of timed wake-ups, and what went on around them.
//!
//! A spinning thread sees everything that takes its CPU away, to the nanosecond and without the
//! kernel's help ([`jitter`], the loop is [`spin`]). It cannot see what waking up costs, because
//! it never sleeps; for that there is [`wake`]. Both only measure: a gap is a start, a length and
//! a CPU. What caused it is for evidence to say that shares the time line, CLOCK_MONOTONIC.
#![forbid(unsafe_code)]

pub mod article;
pub mod attribute;
pub mod explain;
pub mod gaps;
pub mod jitter;
pub mod kallsyms;
pub mod monitor;
pub mod offcpu;
pub mod profile;
pub mod selftest;
pub mod spin;
pub mod surroundings;
pub mod syscalls;
pub mod tally;
pub mod tape;
pub mod wake;

mod cpu_log;
mod crew;
pub mod fold;
mod sections;

pub use article::Article;
pub use attribute::{Seen, Window, attribute};
pub use crew::SpikeError;
pub use gaps::Explained;
pub use jitter::{CpuJitter, Jitter, JitterSettings};
pub use kallsyms::Kallsyms;
pub use monitor::Monitor;
pub use surroundings::Surroundings;
pub use tally::Tally;
pub use tape::Tape;
pub use wake::{Wake, WakeSettings};
