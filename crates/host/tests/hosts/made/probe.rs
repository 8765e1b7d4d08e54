//! The two readings of a probe of two seconds: on the server the engine's CPUs are busy all the
//! while, the others nearly idle.

use quietcore_sys::host::Snapshot;
use serde_json::{Value, json};

use super::{SERVER_CPUS, file, later};

/// CPUs on which the engine spins.
const BUSY: [usize; 2] = [4, 5];

pub fn server(host: &mut Snapshot) {
    host.set("clock boottime", json!(90_000_000_000_000_u64));
    later(host, "clock boottime", json!(90_002_000_000_000_u64));
    host.set("clock monotonic", json!(90_000_000_000_000_u64));
    later(host, "clock monotonic", json!(90_002_000_000_000_u64));
    file(host, "/proc/stat", stat(0));
    later(host, "read /proc/stat", Value::String(stat(200)));
}

/// `/proc/stat` after so many more ticks of 1/100 s.
fn stat(ticks: u64) -> String {
    let cpu = |cpu: usize| {
        let (busy, idle) = if BUSY.contains(&cpu) { (ticks, 0) } else { (1, ticks) };
        format!("cpu{cpu} {} 0 300 {} 10 0 5 0 0 0\n", 1000 + busy, 9_000_000 + idle)
    };
    let cpus: String = (0..SERVER_CPUS).map(cpu).collect();
    format!(
        "cpu  80000 0 24000 720000000 800 0 400 0 0 0\n{cpus}intr 0\nctxt 1000\nbtime 1700000000\n"
    )
}
