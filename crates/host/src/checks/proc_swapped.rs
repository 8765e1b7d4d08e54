use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::remedy::swapoff;
use crate::subject::unread;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.swapped",
    cause: Cause::Memory,
    about: "None of the process' memory is in swap",
    why: "Each first touch of a page in swap is a major fault: the thread sleeps until a disk has \
          answered. VmSwap of /proc/P/status counts anonymous pages; shared memory in swap is not \
          in it.",
    cost: Cost {
        us: 1000.0,
        text: "0.1 ms from a fast disk to 10 ms from a slow one, per page that is touched",
        origin: "judgement: one read of the disk; proc(5) on VmSwap",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let process = facts.process();
    let Some(memory) = process.memory.value() else { return unread(&process.memory) };
    let pid = facts.pid().unwrap_or_default();
    let verdict = match memory.swapped_kib {
        0 => Verdict::pass("none of the process' memory is in swap"),
        kib => Verdict::fail(format!("{kib} KiB of the process are in swap")),
    };
    verdict
        .evidence(format!("/proc/{pid}/status"), format!("VmSwap {} kB", memory.swapped_kib))
        .fix(format!(
            "{}   # brings it back; for good: remove swap from /etc/fstab, or mlockall() in the program",
            swapoff(facts)
        ))
}
