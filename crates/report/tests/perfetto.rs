//! The time line for Perfetto, which nests slices by their times.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod sample;

use quietcore_measure::{Run, Section, Spikes};
use quietcore_report::perfetto;
use serde_json::Value;

fn traced(run: &Run) -> Value {
    serde_json::from_slice(&perfetto(run).unwrap()).unwrap()
}

/// Beginning and length in nanoseconds.
fn times(slice: &Value) -> (u64, u64) {
    let ns = |field: &str| (slice[field].as_f64().unwrap() * 1e3).round() as u64;
    (ns("ts"), ns("dur"))
}

fn spikes_of(run: &Run) -> &Spikes {
    let spikes = run.sections.iter().find_map(|section| match section {
        Section::Spikes(spikes) => Some(spikes),
        _ => None,
    });
    spikes.unwrap()
}

#[test]
fn every_segment_lies_in_its_spike_to_the_nanosecond() {
    let mut run = sample::run();
    for section in &mut run.sections {
        if let Section::Spikes(spikes) = section {
            // A machine that has been up for ten years.
            spikes.spikes.iter_mut().for_each(|spike| spike.start_ns += 315_360_000_000_000_001);
        }
    }
    let trace = traced(&run);
    let spikes = spikes_of(&run);
    let first = trace["otherData"]["start_ns"].as_u64().unwrap();
    assert_eq!(trace["otherData"]["omitted"], spikes.omitted);
    let slices: Vec<_> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .collect();
    let mut slices = slices.into_iter();
    for spike in &spikes.spikes {
        let whole = slices.next().unwrap();
        assert_eq!(times(whole), (spike.start_ns - first, spike.len_ns.0));
        assert_eq!(whole["tid"], spike.thread.tid);
        for part in &spike.segments {
            let slice = slices.next().unwrap();
            assert_eq!(times(slice), (spike.start_ns - first + part.at_ns.0, part.len_ns.0));
            let evidence = slice["args"]["evidence"].as_array().unwrap();
            assert_eq!(evidence.len(), part.evidence.len());
        }
    }
    assert!(slices.next().is_none() && !spikes.spikes.is_empty());
}

#[test]
fn threads_have_their_names_and_a_run_without_spikes_has_none() {
    let run = sample::run();
    let trace = traced(&run);
    let names = trace["traceEvents"].as_array().unwrap().iter();
    let names: Vec<_> = names.filter(|event| event["name"] == "thread_name").collect();
    let thread = &spikes_of(&run).spikes[0].thread;
    assert!(names.iter().any(|name| name["args"]["name"] == *thread.comm));
    let empty = traced(&Run { sections: Vec::new(), ..run });
    assert_eq!(empty["traceEvents"], Value::Array(Vec::new()));
}

#[test]
fn no_name_ends_a_string() {
    let name = "\"},{\u{1b}]0;owned\u{7}\\";
    let trace = traced(&sample::hostile(name));
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let thread = events.clone().find(|event| event["name"] == "thread_name").unwrap();
    assert_eq!(thread["args"]["name"], name);
    assert_eq!(events.count(), traced(&sample::run())["traceEvents"].as_array().unwrap().len());
}
