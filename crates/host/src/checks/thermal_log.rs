use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "thermal.log",
    cause: Cause::Frequency,
    about: "The kernel's log tells of no throttled CPU",
    why: "\"CPU3: Core temperature is above threshold, cpu clock is throttled\" stands in the \
          kernel's log when it happened, with the time; the article greps for it in syslog. Newer \
          kernels only write it when the heat lasts, so silence proves less than the counters do. \
          Read is the kernel's own buffer, which holds what happened since boot unless it wrapped.",
    cost: Cost {
        us: 27.0,
        text: "50–500 µs per event, clock cut by 50–80 %; ranked at a tenth, for it may be over",
        origin: "article on determinism, thermal throttling (grep \"CPU.*throttled\")",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let hot = |text: &str| text.contains("temperature") && text.contains("throttled");
    let found = facts.kernel().all_logged(hot);
    let Some(found) = found.value() else { return Verdict::unread(&found) };
    match found.last() {
        Some(last) => Verdict::fail_if(
            scope.is_declared(),
            format!("the kernel logged throttled CPUs {} times", found.len()),
        )
        .evidence("kernel log", format!("[{:.1} s] {}", last.at_us as f64 / 1e6, last.text))
        .fix("look after cooling; then watch: quietcore power --watch"),
        None => Verdict::pass("the kernel's log tells of no throttled CPU"),
    }
}
