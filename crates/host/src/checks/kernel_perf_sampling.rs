use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.perf-sampling",
    cause: Cause::Irq,
    about: "No profiler's interrupts took too long",
    why: "A sampling profiler interrupts each CPU at its rate, 99 times a second and 5 µs each in \
          the article; perf's own guard writes \"perf: interrupt took too long\" when a sample \
          costs more than its share and lowers kernel.perf_event_max_sample_rate. The line proves \
          that a profiler samples, or did, often an always-on one that nobody thinks of.",
    cost: Cost {
        us: 5.0,
        text: "5 µs per sample on every CPU it watches",
        origin: "article on profiling, failure 1 (99 Hz at 5 µs is 495 µs a second)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let found = facts.kernel().all_logged(|text| text.contains("perf: interrupt took too long"));
    let Some(found) = found.value() else { return Verdict::unread(&found) };
    match found.last() {
        Some(last) => {
            Verdict::fail_if(scope.is_declared(), "a profiler's interrupts took too long")
                .evidence("kernel log", format!("[{:.1} s] {}", last.at_us as f64 / 1e6, last.text))
                .fix("stop the profiler, or keep it to housekeeping CPUs (perf record --cpu)")
        }
        None => Verdict::pass("no profiler's interrupt was logged as too long"),
    }
}
