use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::subject::go_environment;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "go.gogc",
    cause: Cause::Gc,
    about: "Go's collector is told to run rarely",
    why: "GOGC=100, the default, collects whenever the heap has doubled; GOGC=1000 when it has \
          grown elevenfold, a tenth as often. A cycle stops the program only for tens of \
          microseconds, but takes a quarter of the CPUs while it lasts, makes goroutines that \
          allocate help, and interrupts other CPUs to unmap memory. The environment tells what \
          the program was started with; debug.SetGCPercent in its code is not to be seen, so \
          without GOGC the answer is unknown.",
    cost: Cost {
        us: 1_000.0,
        text: "1–100 ms of slower running per cycle, every 1–30 s",
        origin: "article on determinism, taxonomy and the section on Go; go.dev/doc/gc-guide",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let environment = match go_environment(facts) {
        Ok(environment) => environment,
        Err(verdict) => return verdict,
    };
    let source = format!("/proc/{}/environ", facts.pid().unwrap_or_default());
    let Some(value) = environment.get("GOGC") else {
        return Verdict::unknown(
            "GOGC is not in the environment: 100, unless the code calls debug.SetGCPercent",
        )
        .evidence(source, "no GOGC");
    };
    let verdict = match (value.as_str(), value.parse::<u64>()) {
        ("off", _) => Verdict::pass("GOGC=off: only a memory limit makes Go collect"),
        (_, Ok(percent @ 400..)) => Verdict::pass(format!(
            "GOGC={percent}: a collection for each {}-fold growth, unless the code says otherwise",
            percent / 100 + 1
        )),
        (_, Ok(percent @ 101..)) => {
            Verdict::warn(format!("GOGC={percent}: Go collects nearly as often as by default"))
        }
        (_, Ok(percent)) => Verdict::fail_if(
            scope.is_declared(),
            format!("GOGC={percent}: Go collects whenever the heap has grown by {percent} %"),
        ),
        (_, Err(_)) => Verdict::fail_if(
            scope.is_declared(),
            format!("GOGC={value} is no number: Go takes 100"),
        ),
    };
    verdict.evidence(source, format!("GOGC={value}")).fix(
        "GOGC=1000 GOMEMLIMIT=512MiB PROGRAM   # or debug.SetGCPercent(1000), debug.SetMemoryLimit(…) in it",
    )
}
