use quietcore_facts::Facts;
use quietcore_measure::{Cause, Reading};

use crate::subject::java;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "jvm.perf-data",
    cause: Cause::Gc,
    about: "The virtual machine's statistics are not written to a disk",
    why: "The machine keeps its counters in a mapped file below /tmp and writes to it in every \
          collection's pause. When the kernel is just then writing that page to disk, the store \
          waits for the disk, and the whole program with it. On tmpfs there is no disk; \
          -XX:+PerfDisableSharedMem keeps the counters in memory, at the price of jps, jstat and \
          jvm.pauses.",
    cost: Cost {
        us: 100.0,
        text: "as long as the disk takes, up to some 100 ms, but rarely; ranked at a thousandth",
        origin: "Evan Jones, \"The Four Month Bug: JVM statistics cause garbage collection pauses\" (2015)",
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
    let own = match &java.own {
        Reading::Measured(own) => own,
        Reading::Unsupported(_) => {
            return Verdict::pass("the machine maps no file for its statistics");
        }
        failed => return Verdict::unknown(failed.why()),
    };
    let verdict = match own.filesystem.as_str() {
        "" => return Verdict::unknown("the file system below the machine's statistics is unknown"),
        kind @ ("tmpfs" | "ramfs") => Verdict::pass(format!("the statistics lie on {kind}")),
        kind => Verdict::warn(format!(
            "the statistics lie on {kind}: a disk's delay can stop the program"
        )),
    };
    verdict
        .evidence(format!("/proc/{}/mountinfo", facts.pid().unwrap_or_default()), &own.filesystem)
        .fix("-XX:+PerfDisableSharedMem   # or /tmp on tmpfs: systemctl enable --now tmp.mount")
}
