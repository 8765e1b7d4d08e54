use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.reclaim",
    cause: Cause::Memory,
    about: "No thread ever had to free memory before it got some",
    why: "When free memory falls below the low mark faster than kswapd refills it, the thread that \
          asks must free pages itself (allocstall), or compact memory for a large one \
          (compact_stall): microseconds become milliseconds in whatever called malloc or received \
          a packet. The counters are sums since boot over all programs; they prove that it \
          happened, not to whom. Growth now: mem.reclaim-now.",
    cost: Cost {
        us: 50.0,
        text: "100 µs to some ms in the thread that allocates; ranked at a tenth, for it may be over",
        origin: "kernel: mm/page_alloc.c (direct reclaim); size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let memory = facts.memory();
    let Some(stalls) = memory.counted("allocstall") else {
        return match memory.vmstat.value() {
            Some(_) => Verdict::unknown("/proc/vmstat has no allocstall"),
            None => Verdict::unread(&memory.vmstat),
        };
    };
    let compactions = memory.counted("compact_stall").unwrap_or_default();
    let verdict = match stalls.saturating_add(compactions) {
        0 => Verdict::pass("no allocation had to free or compact memory since boot"),
        _ => Verdict::warn(format!(
            "since boot {stalls} allocations freed memory themselves, \
             {compactions} compacted it"
        )),
    };
    verdict
        .evidence("/proc/vmstat", format!("allocstall {stalls}, compact_stall {compactions}"))
        .fix(
            "give kswapd a head start: sysctl -w vm.watermark_scale_factor=100; keep memory \
             free; lock and touch the program's memory at its start",
        )
}
