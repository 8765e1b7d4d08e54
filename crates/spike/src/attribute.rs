//! What a stretch of a thread's life was made of. Pure: the same events give the same answer.

use quietcore_bpf::{Event, Wait};
use quietcore_measure::{Kind, Nanos, Segment, Spike, Thread};

use crate::kallsyms::Kallsyms;

/// A stretch of one thread's life that has to be explained.
#[derive(Clone, Debug)]
pub struct Window {
    /// Whose.
    pub thread: Thread,
    /// When it began, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The CPU on which the thread was when it ended.
    pub cpu: u32,
}

/// What was recorded around a window.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Of every CPU that matters, by time, from some time before the window until its end or later.
    pub events: Vec<Event>,
    /// The thread's waits that overlap with the window.
    pub waits: Vec<Wait>,
    /// Why that is not all.
    pub incomplete: Option<String>,
}

/// What the window was made of.
pub fn attribute(window: &Window, seen: &Seen, _kernel: &Kallsyms) -> Spike {
    let len_ns = Nanos(window.end_ns.saturating_sub(window.start_ns));
    let segment = Segment {
        at_ns: Nanos(0),
        len_ns,
        kind: Kind::Unexplained,
        by: String::new(),
        evidence: Vec::new(),
    };
    Spike {
        start_ns: window.start_ns,
        len_ns,
        thread: window.thread.clone(),
        cpu: window.cpu,
        segments: vec![segment],
        incomplete: seen.incomplete.clone(),
        stack: Vec::new(),
    }
}
