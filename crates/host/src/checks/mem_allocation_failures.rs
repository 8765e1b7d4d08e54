use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.allocation-failures",
    cause: Cause::Memory,
    about: "Memory never ran out",
    why: "\"page allocation failure\" in the kernel's log is a driver that got no page, usually a \
          receive path that then dropped packets; oom_kill in /proc/vmstat counts programs that \
          were killed to free memory, by a control group's limit or for the whole host. Both are \
          preceded by long stalls of everything that allocates.",
    cost: Cost {
        us: 100.0,
        text: "ms to s of stalls before, dropped packets or a killed program after; ranked at a hundredth of 10 ms, for it is an exception since boot",
        origin: "kernel: mm/oom_kill.c, mm/page_alloc.c; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(killed) = facts.memory().counted("oom_kill") else {
        return Verdict::unknown("oom_kill of /proc/vmstat could not be read");
    };
    let logged = facts.kernel().logged("page allocation failure");
    let line = logged.value().copied().flatten();
    if killed == 0 && line.is_none() {
        // The counter covers the whole time since boot, the log only adds to it.
        return Verdict::pass("no program was killed for memory since boot")
            .evidence("/proc/vmstat", "oom_kill 0");
    }
    let title = match killed {
        0 => "the kernel logged a failed allocation".to_owned(),
        _ => format!("{killed} programs were killed for memory since boot"),
    };
    let verdict = Verdict::fail_if(scope.is_declared(), title)
        .evidence("/proc/vmstat", format!("oom_kill {killed}"));
    let verdict = line.iter().fold(verdict, |verdict, line| {
        verdict.evidence("kernel log", format!("[{:.1} s] {}", line.at_us as f64 / 1e6, line.text))
    });
    verdict.fix(
        "journalctl -k -g 'Out of memory|allocation failure' names the program; give it a \
         limit, or the host more memory",
    )
}
