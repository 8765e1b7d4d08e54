use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.busy-poll",
    cause: Cause::Network,
    about: "Readers of kernel sockets poll the card instead of waiting for it",
    why: "With net.core.busy_read a blocking read, and with net.core.busy_poll a poll or select, \
          asks the card's queue itself for so many microseconds before it sleeps: no interrupt, no \
          softirq on another CPU, no wake-up. The documentation advises 50 for both. The system \
          calls are the defaults; a program may ask for itself (SO_BUSY_POLL, epoll's own setting \
          since 6.9), which cannot be seen from outside. Bypass stacks need neither.",
    cost: Cost {
        us: 10.0,
        text: "5–20 µs per packet: interrupt, softirq, wake-up",
        origin: "Documentation/admin-guide/sysctl/net.rst for the advice; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let mut values = Vec::new();
    for name in ["busy_poll", "busy_read"] {
        let file = format!("/proc/sys/net/core/{name}");
        match facts.host().number(&file) {
            Ok(value) => values.push((file, value)),
            Err(error) => return Verdict::unanswered(&error),
        }
    }
    let verdict = match values.iter().all(|(_, value)| *value > 0) {
        true => Verdict::pass("socket readers poll the card"),
        false => Verdict::warn("socket readers sleep until the card interrupts"),
    };
    values
        .iter()
        .fold(verdict, |verdict, (file, value)| verdict.evidence(file, value))
        .fix("sysctl -w net.core.busy_poll=50 net.core.busy_read=50   # and a file in /etc/sysctl.d; or SO_BUSY_POLL in the program")
}
