use quietcore_facts::Facts;
use quietcore_measure::{Cause, Reading};

use crate::subject::java;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "jvm.pauses",
    cause: Cause::Gc,
    about: "The virtual machine's stops are short",
    why: "The machine counts every stop of all its threads (safepoints: collections, and much \
          else, as deoptimisation, thread dumps, the revocation of biased locks before JDK 15) \
          and adds up their length, in performance data that anyone with the right may read. The \
          mean since the start is judged: above 1 ms, or above 100 µs as a warning. The longest \
          stop is longer; -Xlog:safepoint tells.",
    cost: Cost {
        us: 10_000.0,
        text: "the mean stop of this machine",
        origin: "sun.rt.safepointTime of the machine itself; article on determinism, taxonomy",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let java = match java(facts) {
        Ok(java) => java,
        Err(verdict) => return verdict,
    };
    let own = match &java.own {
        Reading::Measured(own) => own,
        Reading::Unsupported(_) => {
            return Verdict::unknown(
                "the machine shares no performance data (-XX:-UsePerfData or +PerfDisableSharedMem)",
            );
        }
        Reading::Failed(why) => return Verdict::unknown(why),
    };
    let (Some(stops), Some(stopped_ns)) = (own.safepoints, own.stopped_ns) else {
        return Verdict::unknown("the performance data holds no count of safepoints");
    };
    if stops == 0 {
        return Verdict::pass("the program was not stopped once");
    }
    let mean_us = stopped_ns as f64 / stops as f64 / 1e3;
    let title = format!("{stops} stops so far, {mean_us:.0} µs each");
    let verdict = match mean_us {
        us if us > 1000.0 => Verdict::fail_if(scope.is_declared(), title),
        us if us > 100.0 => Verdict::warn(title),
        _ => Verdict::pass(title),
    };
    let verdict =
        own.collectors.iter().filter(|c| c.runs > 0).fold(verdict, |verdict, collector| {
            let mean = collector.took_ns as f64 / collector.runs as f64 / 1e6;
            verdict
                .evidence(&collector.name, format!("{} times, {mean:.2} ms each", collector.runs))
        });
    verdict.costs_us(mean_us).fix(
        "-XX:+UseZGC; and allocate less. What stops it: java -Xlog:safepoint,gc:file=stops.log",
    )
}
