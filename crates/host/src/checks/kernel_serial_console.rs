use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.serial-console",
    cause: Cause::Irq,
    about: "The kernel does not wait for a serial line to print",
    why: "A message for a serial console is written byte by byte by whichever CPU prints it or \
          happens to hold the console, with interrupts off: at 115,200 baud 87 µs per character, \
          7 ms per line of 80. What is printed is decided by the console's log level, the first \
          number of kernel.printk: 7 lets everything but debugging through, 4 (quiet) warnings no \
          more. Messages still reach the log.",
    cost: Cost {
        us: 70.0,
        text: "87 µs per character at 115,200 baud, ms per line; ranked at a hundredth, for lines are rare",
        origin: "10 bits per character at 115,200 baud; kernel: core-api/printk-basics, \
                 kernel/printk/printk.c",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// Up to this level only errors and worse are printed.
const QUIET: i64 = 4;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const CONSOLES: &str = "/sys/class/tty/console/active";
    const LEVEL: &str = "/proc/sys/kernel/printk";
    let consoles = match facts.host().line(CONSOLES) {
        Ok(consoles) => consoles,
        Err(error) => return Verdict::unanswered(&error),
    };
    let serial: Vec<&str> = consoles
        .split_whitespace()
        .filter(|name| name.starts_with("ttyS") || name.starts_with("ttyAMA"))
        .collect();
    if serial.is_empty() {
        return Verdict::pass("no serial line is a console").evidence(CONSOLES, consoles);
    }
    let text = match facts.host().line(LEVEL) {
        Ok(text) => text,
        Err(error) => return Verdict::unanswered(&error),
    };
    let Some(level) = text.split_whitespace().next().and_then(|word| word.parse::<i64>().ok())
    else {
        return Verdict::unknown(format!("{LEVEL}: expected numbers, found `{text}`"));
    };
    let verdict = match level > QUIET {
        true => Verdict::fail_if(
            scope.is_declared(),
            format!("the kernel prints up to level {level} on {}", serial.join(", ")),
        ),
        false => Verdict::pass(format!(
            "{} is a console, and only errors are printed there",
            serial.join(", ")
        )),
    };
    verdict
        .evidence(CONSOLES, &consoles)
        .evidence(LEVEL, text.split_whitespace().collect::<Vec<_>>().join(" "))
        .fix("sysctl -w kernel.printk='4 4 1 7'   # at boot: quiet, or no console=ttyS0")
}
