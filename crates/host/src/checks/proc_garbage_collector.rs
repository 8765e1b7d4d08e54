use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Runtime;

use crate::subject::unread;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.garbage-collector",
    cause: Cause::Gc,
    about: "No garbage collector can stop the program",
    why: "A collected language pauses when its runtime decides to: it can be tuned, not \
          eliminated. For P99.9 below 100 µs the hot path belongs into C, C++ or Rust. Told by \
          what is mapped and by the sections of the program; a runtime linked into the program \
          itself (Node.js as distributed, PyPy, GraalVM's native images) is not recognised. Java \
          and Go have checks of their own (jvm.*, go.*).",
    cost: Cost {
        us: 10_000.0,
        text: "1–100 ms per pause, every 1–30 s",
        origin: "article on determinism, taxonomy",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let reading = &facts.process().runtime;
    let Some(runtime) = reading.value() else { return unread(reading) };
    let name = match runtime {
        Runtime::Native => {
            return Verdict::pass("the program is native code: no known collector is in it");
        }
        Runtime::Jvm => return Verdict::not_applicable("Java: see jvm.collector and jvm.pauses"),
        Runtime::Go => return Verdict::not_applicable("Go: see go.gogc and go.memlimit"),
        Runtime::DotNet => ".NET",
        Runtime::Python => "Python",
        Runtime::Node => "Node.js",
    };
    Verdict::warn(format!("the program runs on {name}, which collects garbage"))
        .evidence(format!("/proc/{}/maps and exe", facts.pid().unwrap_or_default()), name)
        .fix(match runtime {
            Runtime::DotNet => "DOTNET_gcConcurrent=1 and GCSettings.LatencyMode = SustainedLowLatency; the hot path in C, C++ or Rust",
            Runtime::Python => "gc.disable() and gc.freeze() after start; the hot path in C, C++ or Rust",
            _ => "the hot path in C, C++ or Rust",
        })
}
