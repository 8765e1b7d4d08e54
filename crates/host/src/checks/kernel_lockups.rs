use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.lockups",
    cause: Cause::Scheduler,
    about: "No CPU or task hung since boot",
    why: "\"soft lockup\" is a CPU that ran nothing else for 20 s, \"hard LOCKUP\" one that did \
          not even take interrupts, \"blocked for more than\" a task that waited two minutes for \
          a disk or a lock. Each is a fault that no tuning mends, and the backtrace in the log \
          names where. On a CPU that a FIFO thread spins on, a soft lockup is that thread keeping \
          everything else out.",
    cost: Cost {
        us: 1000.0,
        text: "seconds; ranked at a thousandth of one, for it is an exception in the log of a whole boot",
        origin: "kernel: admin-guide/lockup-watchdogs, kernel/hung_task.c",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const WORDS: [&str; 4] = ["soft lockup", "hard LOCKUP", "blocked for more than", "hung_task"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    // Announcements of the watchdogs themselves and of the boot line hold the words, too.
    let is_event = |text: &str| {
        WORDS.iter().any(|word| text.contains(word))
            && !text.contains("ommand line")
            && !text.contains("nables")
    };
    let found = facts.kernel().all_logged(is_event);
    let Some(found) = found.value() else { return Verdict::unread(&found) };
    match found.last() {
        Some(last) => {
            let title = format!("the kernel logged {} hangs", found.len());
            Verdict::fail_if(scope.is_declared(), title).evidence("kernel log", format!("[{:.1} s] {}", last.at_us as f64 / 1e6, last.text))
            .fix(
                "journalctl -k -g 'lockup|blocked for more' shows the backtraces: the driver or \
                 the thread they name is the culprit",
            )
        }
        None => Verdict::pass("the kernel's log tells of no hang"),
    }
}
