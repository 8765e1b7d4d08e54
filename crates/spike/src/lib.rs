//! Spikes: the jitter loop, the lateness of timed wake-ups, and what went on around them.
//!
//! A spinning thread sees everything that takes its CPU away, to the nanosecond and without the
//! kernel's help ([`spin`]).
#![forbid(unsafe_code)]

pub mod spin;
