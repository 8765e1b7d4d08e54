use quietcore_facts::Facts;
use quietcore_facts::process::Collector;
use quietcore_measure::Cause;

use crate::subject::{java, java_flags, maybe_elsewhere};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "jvm.explicit-gc",
    cause: Cause::Gc,
    about: "System.gc() does not bring about a full collection",
    why: "Any library may call System.gc(), and RMI does so every hour: with Serial, Parallel and \
          G1 that stops the program for a full collection. -XX:+DisableExplicitGC makes it do \
          nothing; -XX:+ExplicitGCInvokesConcurrent makes it a concurrent one (G1), as ZGC and \
          Shenandoah do anyway. Direct buffers \
          are freed by a System.gc() of the runtime's own when they run out, so a program that \
          uses many should prefer the second.",
    cost: Cost {
        us: 500.0,
        text: "a full collection, 10 ms–1 s, per call; ranked at a hundredth, for it takes a caller",
        origin: "article on determinism, the flags for Java; the figure: judgement",
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
    let flags = match java_flags(java) {
        Ok(flags) => flags,
        Err(verdict) => return verdict,
    };
    let beside = match java.collector() {
        Some(Collector::Z | Collector::Shenandoah) => Some("only its caller waits for System.gc()"),
        Some(Collector::Epsilon) => Some("there is no collector that System.gc() could call"),
        _ => None,
    };
    let on = |name: &str| flags.switch(name) == Some(true);
    let verdict = match () {
        () if on("DisableExplicitGC") => Verdict::pass("System.gc() does nothing"),
        () if on("ExplicitGCInvokesConcurrent") => {
            Verdict::pass("System.gc() collects concurrently")
        }
        () if beside.is_some() => Verdict::pass(beside.unwrap_or_default()),
        () if !flags.complete => return maybe_elsewhere(flags, "DisableExplicitGC"),
        () => Verdict::warn("any library may ask for a full collection by System.gc()"),
    };
    let given = ["DisableExplicitGC", "ExplicitGCInvokesConcurrent"]
        .iter()
        .map(|name| format!("{name}: {}", flags.value(name).unwrap_or("not given")))
        .collect::<Vec<_>>()
        .join(", ");
    verdict.evidence(&flags.source, given).fix("-XX:+DisableExplicitGC")
}
