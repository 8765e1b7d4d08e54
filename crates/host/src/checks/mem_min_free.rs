use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.min-free",
    cause: Cause::Memory,
    about: "Enough memory is kept free for allocations that cannot wait",
    why: "vm.min_free_kbytes is the reserve for interrupts and the receive path; the distance to \
          the marks above it, where kswapd starts and stops, is watermark_scale_factor in units \
          of 0.01 % of memory. By default both are small (about 70 MB and 0.1 %): a burst of \
          packets or a large file read empties them before kswapd has woken up, and the thread \
          that allocates must free pages itself.",
    cost: Cost {
        us: 50.0,
        text: "100 µs to some ms in the thread that allocates, in bursts; ranked at a tenth, for memory must be short",
        origin: "kernel: admin-guide/sysctl/vm (min_free_kbytes, watermark_scale_factor); the \
                 line drawn at 0.4 % of memory: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

/// Share of memory that the reserve and the head start of kswapd should have together.
const SHARE: f64 = 0.004;

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let number = |name: &str| facts.host().number(&format!("/proc/sys/vm/{name}"));
    let (min, scale) = match (number("min_free_kbytes"), number("watermark_scale_factor")) {
        (Ok(min), Ok(scale)) => (min as f64, scale as f64),
        (Err(error), _) | (_, Err(error)) => return Verdict::unanswered(&error),
    };
    let total = facts.kernel().memory_bytes as f64 / 1024.0;
    if total <= 0.0 {
        return Verdict::unknown("the size of memory could not be read");
    }
    let share = (min + total * scale / 10_000.0) / total;
    let percent = format!("{:.2} % of memory", share * 100.0);
    let verdict = match share < SHARE {
        true => Verdict::warn(format!("only {percent} are kept free")),
        false => Verdict::pass(format!("{percent} are kept free")),
    };
    verdict
        .evidence("/proc/sys/vm/min_free_kbytes", min)
        .evidence("/proc/sys/vm/watermark_scale_factor", scale)
        .fix("sysctl -w vm.watermark_scale_factor=100   # lasting: /etc/sysctl.d/60-latency.conf")
}
