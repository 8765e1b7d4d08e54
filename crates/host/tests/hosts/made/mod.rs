//! Two hosts made by hand, for hardware that no laboratory guest has: a well-tuned server with two
//! sockets, 80 CPUs and SMT, and a laptop out of the box. Labelled synthetic in their own text.
//!
//! Each area of a host is one file with a function per host. `BLESS=1 cargo test -p quietcore-host`
//! writes the snapshots anew; without it the test compares.

mod cpus;
mod debugging;
mod irqs;
mod isolation;
mod memory;
mod network;
mod power;
mod probe;
mod processes;
mod tasks;
mod timekeeping;
mod units;

use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use crate::testdata;

/// A part of a made host.
type Part = fn(&mut Snapshot);

const SERVER: &[Part] = &[
    cpus::server,
    power::server,
    memory::server,
    debugging::server,
    irqs::server,
    isolation::server,
    network::server,
    probe::server,
    tasks::server,
    processes::server,
    timekeeping::server,
    units::server,
];
const LAPTOP: &[Part] = &[
    cpus::laptop,
    power::laptop,
    memory::laptop,
    debugging::laptop,
    irqs::laptop,
    isolation::laptop,
    network::laptop,
    tasks::laptop,
    timekeeping::laptop,
    units::laptop,
];

/// The server's CPUs: node 0 has 0-19 and their siblings 40-59, node 1 has 20-39 and 60-79.
pub const SERVER_CPUS: usize = 80;
/// The server keeps these for latency: all of node 0 but two cores.
pub const SERVER_ISOLATED: &str = "2-19,42-59";
/// The laptop's CPUs: 4 cores with 2 threads each, siblings n and n+4.
pub const LAPTOP_CPUS: usize = 8;

/// Puts a file's text into a snapshot.
pub fn file(host: &mut Snapshot, path: &str, text: impl Into<String>) {
    host.set(&format!("read {path}"), Value::String(text.into()));
}

/// Puts several files of one folder in, each with a newline behind.
pub fn files(host: &mut Snapshot, folder: &str, files: &[(&str, &str)]) {
    for (name, text) in files {
        file(host, &format!("{folder}/{name}"), format!("{text}\n"));
    }
}

/// Puts into the second reading of a probe what has changed since the first. Parts that change a
/// file's first reading again take it out, so this comes last.
pub fn later(host: &mut Snapshot, key: &str, answer: Value) {
    if host.moments.len() < 2 {
        host.moments.push(Default::default());
    }
    host.moments[1].insert(key.to_owned(), answer);
}

/// Puts a directory in.
pub fn folder(host: &mut Snapshot, path: &str, names: &[&str]) {
    host.set(&format!("list {path}"), json!(names));
}

fn make(name: &str, about: &str, parts: &[Part]) -> Snapshot {
    let mut host = Snapshot::new(name);
    host.about = about.to_owned();
    for part in parts {
        part(&mut host);
    }
    host
}

#[test]
fn the_snapshots_are_what_the_makers_make() {
    let server = make(
        "two-socket",
        "Synthetic: made by hand, not recorded. A two-socket server with 80 CPUs and SMT, tuned well.",
        SERVER,
    );
    let laptop = make(
        "laptop",
        "Synthetic: made by hand, not recorded. A laptop with 8 CPUs, as installed.",
        LAPTOP,
    );
    for host in [server, laptop] {
        let path = testdata().join("hosts").join(&host.name).join("host.json");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, host.to_json().unwrap()).unwrap();
        }
        let kept = Snapshot::load(&path).unwrap();
        assert!(kept == host, "{} is stale: BLESS=1 cargo test -p quietcore-host", path.display());
    }
}
