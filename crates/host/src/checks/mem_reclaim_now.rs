use quietcore_facts::Facts;
use quietcore_facts::memory::{pairs, sum};
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.reclaim-now",
    cause: Cause::Memory,
    about: "No thread has to free memory before it gets some",
    why: "allocstall or compact_stall of /proc/vmstat grew during the probe: threads that asked \
          for memory were made to free or compact it themselves, now.",
    cost: Cost {
        us: 500.0,
        text: "100 µs to some ms in the thread that allocates",
        origin: "kernel: mm/page_alloc.c (direct reclaim); size: judgement",
    },
    kind: Kind::Probe,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let (first, second) = (pairs(&probe.first.vmstat), pairs(&probe.second.vmstat));
    let grown = |prefix: &str| sum(&second, prefix)?.checked_sub(sum(&first, prefix)?);
    let Some(stalls) = grown("allocstall") else {
        return Verdict::unknown("allocstall of /proc/vmstat could not be read");
    };
    let compactions = grown("compact_stall").unwrap_or_default();
    let verdict = match stalls.saturating_add(compactions) {
        0 => Verdict::pass(format!(
            "no allocation had to free or compact memory in {}",
            probe.took()
        )),
        _ => Verdict::fail(format!(
            "{stalls} allocations freed memory themselves in {}, \
             {compactions} compacted it",
            probe.took()
        )),
    };
    verdict
        .evidence(
            "/proc/vmstat, grown",
            format!("allocstall {stalls}, compact_stall {compactions}"),
        )
        .fix(
            "free memory; sysctl -w vm.watermark_scale_factor=100; see /proc/pressure/memory and \
             the cgroups' memory.pressure for who",
        )
}
