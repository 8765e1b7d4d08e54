use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::subject::{g1_flags, maybe_elsewhere};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "jvm.pause-target",
    cause: Cause::Gc,
    about: "G1 is told to keep its pauses to 10 ms",
    why: "G1 collects as much at a time as it expects to manage within MaxGCPauseMillis: 200 ms \
          unless told otherwise. It is an aim, not a limit; jvm.pauses shows what was reached. \
          Flags are read in the machine's order: JAVA_TOOL_OPTIONS, the command line, \
          _JAVA_OPTIONS, and the last one counts.",
    cost: Cost {
        us: 5000.0,
        text: "up to the target, 200 ms by default, per collection; most take a tenth of it or less",
        origin: "article on determinism, the flags for Java; the default: `java -XX:+PrintFlagsFinal`",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

const NAME: &str = "MaxGCPauseMillis";
const AIM_MS: u64 = 10;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let flags = match g1_flags(facts) {
        Ok(flags) => flags,
        Err(verdict) => return verdict,
    };
    let (ms, how) = match flags.number(NAME) {
        Some(ms) => (ms, "as told"),
        None if !flags.complete => return maybe_elsewhere(flags, NAME),
        None => (200, "the default"),
    };
    let verdict = match ms <= AIM_MS {
        true => Verdict::pass(format!("G1 aims at pauses of {ms} ms")),
        false => {
            Verdict::fail_if(scope.is_declared(), format!("G1 aims at pauses of {ms} ms, {how}"))
                .costs_us(ms as f64 * 1000.0 / 40.0)
        }
    };
    verdict
        .evidence(&flags.source, format!("{NAME}={ms} ({how})"))
        .fix(format!("-XX:{NAME}={AIM_MS}"))
}
