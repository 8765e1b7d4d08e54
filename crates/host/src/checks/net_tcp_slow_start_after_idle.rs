use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.tcp-slow-start-after-idle",
    cause: Cause::Network,
    about: "A TCP connection keeps its speed while idle",
    why: "After an idle time of one retransmission time-out Linux halves the congestion window \
          again and again, down to ten packets: a connection that is quiet until it must send a \
          large answer or a burst of orders starts slowly every time, and pays round trips for it. \
          Messages that fit into ten packets (14 kB) do not notice.",
    cost: Cost {
        us: 100.0,
        text: "one to three round trips, 1 ms between data centres, per burst beyond 14 kB after a pause; ranked at a tenth, for most messages are smaller",
        origin: "Documentation/networking/ip-sysctl.rst (RFC 2861) for the mechanism; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
    match facts.host().number(SOURCE) {
        Err(error) => Verdict::unanswered(&error),
        Ok(0) => Verdict::pass("TCP connections keep their speed while idle").evidence(SOURCE, 0),
        Ok(value) => Verdict::warn("TCP connections start slowly again after a pause")
            .evidence(SOURCE, value)
            .fix("sysctl -w net.ipv4.tcp_slow_start_after_idle=0   # and a file in /etc/sysctl.d"),
    }
}
