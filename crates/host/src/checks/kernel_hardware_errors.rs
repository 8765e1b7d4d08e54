use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.hardware-errors",
    cause: Cause::Smi,
    about: "The hardware has reported no error",
    why: "\"[Hardware Error]\" lines are machine checks and errors that the firmware hands on: a \
          cache or memory word that was corrected, a PCIe link that retried. The work of \
          reporting one stops CPUs for far longer than the correction, in the firmware first. \
          They come in storms before a part dies.",
    cost: Cost {
        us: 20.0,
        text: "100–300 µs each where firmware handles them first; ranked at a tenth, for it may be over",
        origin: "article on isolation, failure 5 (ECC among the sources of SMIs)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let is_error = |text: &str| {
        text.contains("Hardware Error") || text.contains("machine check events logged")
    };
    let found = facts.kernel().all_logged(is_error);
    let Some(found) = found.value() else { return Verdict::unread(&found) };
    match found.last() {
        Some(last) => Verdict::fail_if(
            scope.is_declared(),
            format!("the hardware reported errors ({} lines)", found.len()),
        )
        .evidence("kernel log", format!("[{:.1} s] {}", last.at_us as f64 / 1e6, last.text))
        .fix("apt install rasdaemon; ras-mc-ctl --errors names the part: replace it"),
        None => Verdict::pass("the kernel's log tells of no hardware error"),
    }
}
