use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::subject::unread;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.locked-memory",
    cause: Cause::Memory,
    about: "The process' memory is locked",
    why: "Memory that is not locked can be taken away: anonymous pages go to swap, pages of the \
          program's own text are dropped and read again from disk, with swap or without. \
          mlockall(MCL_CURRENT | MCL_FUTURE) holds both, and lets later allocations fault in at \
          once. Locked and resident sizes are compared (VmLck, VmRSS); locks do not survive exec, \
          so they are taken in the program itself. Huge pages from the pool are never taken away and \
          count in neither.",
    cost: Cost {
        us: 100.0,
        text: "0.1 ms from a fast disk to 10 ms from a slow one, at the first touch after a page was taken",
        origin: "judgement: one read of the disk; mlock(2) on why real-time programs lock",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let process = facts.process();
    let Some(memory) = process.memory.value() else { return unread(&process.memory) };
    let pid = facts.pid().unwrap_or_default();
    let source = format!("/proc/{pid}/status");
    let text = format!("VmLck {} KiB, VmRSS {} KiB", memory.locked_kib, memory.resident_kib);
    // Locked memory that was not touched yet counts as locked: it may well exceed what is there.
    if memory.locked_kib >= memory.resident_kib / 2 && memory.locked_kib > 0 {
        return Verdict::pass(format!(
            "{} MiB are locked, {} MiB resident",
            memory.locked_kib >> 10,
            memory.resident_kib >> 10
        ))
        .evidence(source, text);
    }
    let limit = process.lockable.value().copied();
    let allowed = match limit {
        Some(None) => "without limit".to_owned(),
        Some(Some(bytes)) => format!("up to {} KiB", bytes >> 10),
        None => "an unknown amount".to_owned(),
    };
    let title = match memory.locked_kib {
        0 => "none of the process' memory is locked".to_owned(),
        kib => format!("only {kib} of {} KiB are locked", memory.resident_kib),
    };
    Verdict::fail_if(scope.is_declared(), title)
        .evidence(source, text)
        .evidence(format!("/proc/{pid}/limits"), format!("it may lock {allowed}"))
        .fix("quietcore exec --mlock -- PROGRAM   # or mlockall(MCL_CURRENT | MCL_FUTURE) in it, with LimitMEMLOCK=infinity in its unit")
}
