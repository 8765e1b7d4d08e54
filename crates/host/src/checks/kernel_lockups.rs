use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Scope, Verdict};

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
        us: 1_000_000.0,
        text: "seconds",
        origin: "kernel: admin-guide/lockup-watchdogs, kernel/hung_task.c",
    },
    kind: Kind::Host,
    judge,
};

const WORDS: [&str; 4] = ["soft lockup", "hard LOCKUP", "blocked for more than", "hung_task"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let log = &facts.kernel().log;
    let Some(lines) = log.value() else { return Verdict::unread(log) };
    // Announcements of the watchdogs themselves and of the boot line hold the words, too.
    let is_event = |text: &str| {
        WORDS.iter().any(|word| text.contains(word))
            && !text.contains("ommand line")
            && !text.contains("nables")
    };
    let found: Vec<_> = lines.lines.iter().filter(|line| is_event(&line.text)).collect();
    match found.last() {
        Some(last) => {
            let title = format!("the kernel logged {} hangs", found.len());
            Verdict::fail_if(scope.is_declared(), title).evidence("kernel log", format!("[{:.1} s] {}", last.at_us as f64 / 1e6, last.text))
            .fix(
                "journalctl -k -g 'lockup|blocked for more' shows the backtraces: the driver or \
                 the thread they name is the culprit",
            )
        }
        None if lines.wrapped => Verdict::unknown(
            "the kernel's log no longer reaches back to boot (log_buf_len=4M \
             keeps more)",
        ),
        None => Verdict::pass("the kernel's log tells of no hang"),
    }
}
