//! Every touch of the kernel's BPF: programs in C that relocate themselves to the running kernel,
//! a loader that says of each whether it works here, and what they saw.
//!
//! A folder of `programs/` is one object; its skeleton is made by the build script. This crate may
//! hold `unsafe`: the skeletons and the memory that programs and user space share need it.

mod error;
mod faults;
mod function;
mod health;
mod histogram;
mod kernel;
mod loader;
mod offcpu;
mod probe_cost;
mod profile;
mod ring;
mod runtime;
mod sets;
mod stacks;
mod symbols;
mod timeline;
mod wait;
mod watch;
mod wire;

pub use error::BpfError;
pub use function::{FunctionProbe, Span, SpanCounts, Target, UserPath};
pub use health::{Health, State};
pub use histogram::{Histogram, Histograms};
pub use kernel::Kernel;
pub use offcpu::{Bucket, OffCpu, OffCpuCounts, OffCpuSettings, WaitKind, Waited};
pub use probe_cost::{Beginning, ProbeCost, probe_cost};
pub use profile::{Profile, ProfileCounts, ProfileSettings, SampleEvent, Sampled};
pub use ring::Batch;
pub use runtime::Runtime;
pub use sets::Set;
pub use stacks::{Losses, Stack};
pub use symbols::Symbols;
pub use timeline::{Counts, Settings, Timeline};
pub use wait::{Task, UserRegs, Wait, WaitFlags};
pub use watch::Watch;
pub use wire::{Event, Name, Pause, Sleeps, Vector, What};
