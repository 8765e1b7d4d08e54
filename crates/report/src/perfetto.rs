//! Spikes on a time line: the JSON of Chrome's trace viewer, which Perfetto's UI opens, too.
//!
//! A spike is a slice of its thread, and its segments are slices within it. Times are in microseconds
//! since the first of them: a double holds them to the nanosecond, so that none reaches beyond the
//! slice that it lies in.

use std::collections::BTreeMap;

use quietcore_measure::{Nanos, Run, Section, Spike, Spikes};
use serde_json::{Value, json};

use crate::spikes::{kind, named};

/// The spikes that a run keeps, as a file for <https://ui.perfetto.dev>.
///
/// # Errors
/// None are known: it is written to memory.
pub fn perfetto(run: &Run) -> serde_json::Result<Vec<u8>> {
    let sections = run.sections.iter().filter_map(|section| match section {
        Section::Spikes(spikes) => Some(spikes),
        _ => None,
    });
    let sections: Vec<&Spikes> = sections.collect();
    let all = || sections.iter().flat_map(|section| &section.spikes);
    let start = all().map(|spike| spike.start_ns).min().unwrap_or_default();
    let threads: BTreeMap<_, _> = all().map(|Spike { thread, .. }| (thread.tid, thread)).collect();
    let mut events: Vec<Value> = Vec::new();
    for thread in threads.into_values() {
        let name = |what: &str| {
            let args = json!({ "name": thread.comm });
            json!({ "ph": "M", "name": what, "pid": thread.pid, "tid": thread.tid, "args": args })
        };
        events.extend((thread.tid == thread.pid).then(|| name("process_name")));
        events.push(name("thread_name"));
    }
    for section in &sections {
        events.extend(section.spikes.iter().flat_map(|spike| slices(&section.name, spike, start)));
    }
    serde_json::to_vec(&json!({
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "command": run.command,
            "quietcore": run.quietcore,
            "host": run.host.name,
            "kernel": run.host.kernel,
            "validity": run.validity.verdict,
            "clock": "CLOCK_MONOTONIC",
            "start_ns": start,
            "omitted": sections.iter().map(|section| section.omitted).sum::<u64>(),
        },
    }))
}

/// A spike and, in it, what it was made of.
fn slices(section: &str, spike: &Spike, start: u64) -> Vec<Value> {
    let slice = |name: String, at: u64, length: Nanos, args: Value| {
        json!({
            "ph": "X", "cat": section, "name": name, "ts": micros(at - start), "dur": micros(length.0),
            "pid": spike.thread.pid, "tid": spike.thread.tid, "args": args,
        })
    };
    let mut args = json!({ "length": spike.len_ns.to_string(), "cpu": spike.cpu });
    if let Some(why) = &spike.incomplete {
        args["incomplete"] = why.as_str().into();
    }
    if !spike.stack.is_empty() {
        args["stack"] = spike.stack.join(" < ").into();
    }
    let whole = slice(format!("spike: {}", kind(spike.kind())), spike.start_ns, spike.len_ns, args);
    let parts = spike.segments.iter().map(|part| {
        let name = named(part.kind, &part.by);
        let args = json!({ "evidence": part.evidence });
        slice(name, spike.start_ns.saturating_add(part.at_ns.0), part.len_ns, args)
    });
    std::iter::once(whole).chain(parts).collect()
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}
