use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Trouble;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.conntrack",
    cause: Cause::Network,
    about: "Packets are not looked up in a connection table",
    why: "Connection tracking looks every packet up in a hash table, takes a lock to update its \
          timer and state, and runs its clean-up on all CPUs; when the table is full, new \
          connections are dropped. A rule with `ct state` or NAT, docker's for one, switches it on \
          for the whole network namespace. Loaded with an empty table it is registered nowhere \
          that traffic passes. Packets can be exempted by `notrack`, which this cannot see.",
    cost: Cost {
        us: 1.0,
        text: "0.2–2 µs per packet, more for the first of a connection",
        origin: "judgement: a hash lookup, an atomic counter and a timer update",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const PRESENT: &str = "/proc/sys/net/core/busy_read";
    const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
    match facts.host().number(COUNT) {
        // Absence proves something only where the network's settings are there to see.
        Err(error) if error.trouble == Trouble::Missing && facts.host().line(PRESENT).is_err() => {
            Verdict::unknown(error.to_string())
        }
        Err(error) if error.trouble == Trouble::Missing => {
            Verdict::pass("connection tracking is not loaded").evidence(COUNT, "not there")
        }
        Err(error) => Verdict::unanswered(&error),
        Ok(0) => Verdict::pass("connection tracking follows no connection").evidence(COUNT, 0),
        Ok(count) => Verdict::warn(format!("{count} connections are tracked, packet by packet"))
            .evidence(COUNT, count)
            .fix("nft list ruleset   # first: who uses ct or nat? Then exempt the one flow, both ways: nft add table inet quiet; nft add chain inet quiet in '{ type filter hook prerouting priority raw; }'; nft add chain inet quiet out '{ type filter hook output priority raw; }'; nft add rule inet quiet in udp dport PORT notrack; nft add rule inet quiet out udp dport PORT notrack"),
    }
}
