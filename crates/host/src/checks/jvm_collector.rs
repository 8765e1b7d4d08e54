use quietcore_facts::Facts;
use quietcore_facts::process::Collector;
use quietcore_measure::Cause;

use crate::subject::java;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "jvm.collector",
    cause: Cause::Gc,
    about: "The virtual machine's collector does not stop the program for long",
    why: "Serial and Parallel stop every thread for as long as a collection takes, CMS when it \
          falls behind; G1 aims at a pause and takes milliseconds; ZGC and Shenandoah collect \
          while the program runs. Read from what the machine says of itself (its performance \
          data), else from -XX:+Use…GC. The default depends on version, memory and CPUs: in a \
          container with less than 2 CPUs or 1792 MB it is Serial, silently, and it is not \
          guessed here. Below 100 µs at P99.9 no collector helps: that takes C, C++ or Rust.",
    cost: Cost {
        us: 20_000.0,
        text: "1–100 ms per pause, every 1–30 s",
        origin: "article on determinism, taxonomy and the section on Java",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let java = match java(facts) {
        Ok(java) => java,
        Err(verdict) => return verdict,
    };
    let Some(collector) = java.collector() else {
        return Verdict::unknown(
            "which collector runs is the version's default: the machine shares no performance data",
        );
    };
    let name = collector.name();
    let verdict = match collector {
        Collector::Z | Collector::Shenandoah => {
            Verdict::pass(format!("{name} collects while the program runs"))
        }
        Collector::Epsilon => {
            Verdict::pass("Epsilon never collects: the program ends when the heap is full")
        }
        Collector::G1 => Verdict::warn("G1 stops the program for milliseconds").costs_us(5_000.0),
        Collector::Serial | Collector::Parallel | Collector::Cms => {
            Verdict::fail(format!("{name} stops the program for whole collections"))
        }
    };
    let version = java.own.value().map(|jvm| jvm.version.as_str()).unwrap_or_default();
    verdict
        .evidence("collector", name)
        .evidence("java.version", if version.is_empty() { "unknown" } else { version })
        .fix("-XX:+UseZGC   # JDK 15 and later; before: -XX:+UseG1GC -XX:MaxGCPauseMillis=10")
}
