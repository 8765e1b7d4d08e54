//! The host below a guest stands still: no event in the guest can show it, and none may be blamed.

use serde_json::Value;

use crate::lab::evidence::Evidence;
use crate::lab::guest::STALL;
use crate::lab::scenario::{IN_TURN, Scenario, Step};
use crate::lab::tally::Tally;

/// How often the guest asks for it. The script below counts as far.
const STALLS: usize = 5;

/// Far less than a stall, far more than an emulated guest loses by itself.
const LONG_NS: u64 = 500_000_000;

const SCRIPT: &str = "\
taskset 2 quietcore jitter --cpus 1 --explain --threshold 10us --duration 40s --format json --quiet \\
    -o /tmp/run.json &
sleep 15
for n in 1 2 3 4 5; do sleep 4; echo 'lab: stall' >/dev/kmsg; done
wait $!; code=$?
cat /tmp/run.json; exit $code
";

pub const SCENARIO: Scenario = Scenario {
    name: "stall",
    about: "the host stands still five times: host-or-firmware each time, nobody in the guest",
    kernel: None,
    // What the mitigations cost an emulated CPU makes a guest three times as slow.
    boot: "mitigations=off",
    cpu: "max",
    smp: "2",
    accel: IN_TURN,
    qemu: &[],
    acpi: None,
    modules: &[],
    look: "echo online=$(cat /sys/devices/system/cpu/online)\n",
    premises,
    audit: "",
    expect: &[],
    recording: None,
    steps: &[Step::new("stalls", 180, SCRIPT)],
    judge,
};

fn premises(e: &Evidence, tally: &mut Tally) {
    let online = e.value("look", "online").unwrap_or_default();
    tally.premise(online == "0-1", "two CPUs", || online.clone());
}

fn judge(e: &Evidence, tally: &mut Tally) {
    assert!(SCRIPT.contains(STALL), "the guest asks in the words that the host listens for");
    let run = e.json("stalls").unwrap_or_default();
    let sections = run["sections"].as_array().into_iter().flatten();
    let spikes = sections.filter(|section| section["name"] == "jitter_explained");
    let spikes: Vec<&Value> =
        spikes.flat_map(|section| section["spikes"].as_array().into_iter().flatten()).collect();
    let long: Vec<&&Value> =
        spikes.iter().filter(|spike| spike["len_ns"].as_u64() > Some(LONG_NS)).collect();
    tally.check(long.len() == STALLS, "every stall is a gap", || {
        format!("{} gaps of 500 ms and more\n{}", long.len(), e.ending("stalls"))
    });
    let named: Vec<String> = long.iter().map(|spike| longest(spike)).collect();
    let right = named.iter().filter(|kind| *kind == "host_or_firmware").count();
    tally.check(right == STALLS, "each is host-or-firmware, none the guest's", || named.join(", "));
}

/// The kind that most of a spike's time went to.
fn longest(spike: &Value) -> String {
    let segments = spike["segments"].as_array().into_iter().flatten();
    let longest = segments.max_by_key(|segment| segment["len_ns"].as_u64());
    longest.map_or_else(String::new, |segment| segment["kind"].to_string().replace('"', ""))
}
