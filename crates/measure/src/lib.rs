//! What is counted. Pure values, no I/O: every other crate speaks in these types.
//!
//! The record in the middle is [`Run`]: everything that quietcore measures becomes one, and
//! every output (text, JSON, CSV, HTML) is made from it, so that no two outputs can disagree.
#![forbid(unsafe_code)]

mod cause;
mod compare;
mod cpuset;
mod distribution;
mod finding;
mod gap;
mod hdr;
mod hist;
mod nanos;
mod quantile;
mod reading;
mod run;
mod spike;
mod window;

pub use cause::Cause;
pub use compare::{CompareError, Compared, compare};
pub use cpuset::{CpuSet, CpuSetError};
pub use finding::{Evidence, Finding, Impact, Status, Waiver};
pub use gap::{Gap, GapStore};
pub use hdr::{
    HdrError, HistLog, LogEntry, decode_v2, decode_v2_bytes, encode_v2, encode_v2_bytes, read_log,
    write_log,
};
pub use hist::{Hist, HistConfig, MergeError};
pub use nanos::{Nanos, ParseDurationError};
pub use quantile::{Change, Difference, Interval, Quantile, difference, quantile, samples_needed};
pub use reading::Reading;
pub use run::{
    Cell, Comparison, ComparisonRow, Distribution, Findings, HostSummary, Run, SCHEMA, Section,
    Series, Table, Timeline, Validity, Verdict,
};
pub use spike::{Flame, Kind, KindCount, Segment, Spike, Spikes, Thread};
pub use window::{Breaches, Window, WindowConfig, Worst};
