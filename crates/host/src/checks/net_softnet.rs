use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.softnet",
    cause: Cause::Network,
    about: "CPUs keep up with the packets they receive",
    why: "/proc/net/softnet_stat counts per CPU, since boot, the packets that found its backlog \
          full and were dropped (only packets handed over in software meet the backlog: RPS, \
          loopback, tunnels, veth), and how often a CPU ran out of its budget of packets or time \
          with work left: the rest waits for ksoftirqd, an ordinary thread that waits for its turn \
          on the CPU. Rare squeezes in bursts are normal; from one in a thousand packets on they \
          are reported.",
    cost: Cost {
        us: 100.0,
        text: "a squeeze delays the packets behind it by up to a scheduler's slice of some ms, a drop costs a retransmission; ranked at a tenth of 1 ms, for it may be over",
        origin: "net/core/dev.c for the mechanism; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// Squeezes per packet, the inverse, from which on they are reported.
const RARE: u64 = 1000;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/net/softnet_stat";
    let rows = &facts.softnet().rows;
    if rows.is_empty() {
        return Verdict::unknown(format!("{SOURCE} could not be read"));
    }
    let squeezed = |row: &&quietcore_facts::softnet::Row| {
        row.squeezed > 0 && row.squeezed > row.processed / RARE
    };
    let dropped: Vec<_> = rows.iter().filter(|row| row.dropped > 0).collect();
    let late: Vec<_> = rows.iter().filter(squeezed).collect();
    let on = |rows: &[&quietcore_facts::softnet::Row]| {
        rows.iter().map(|row| row.cpu).collect::<quietcore_measure::CpuSet>()
    };
    let verdict = match (dropped.is_empty(), late.is_empty()) {
        (false, _) => Verdict::fail_if(
            scope.is_declared(),
            format!("CPUs {} dropped received packets since boot", on(&dropped)),
        ),
        (_, false) => {
            Verdict::warn(format!("CPUs {} run out of time for received packets", on(&late)))
        }
        _ => {
            return Verdict::pass("CPUs keep up with received packets")
                .evidence(SOURCE, format!("{} CPUs, nothing dropped", rows.len()));
        }
    };
    let shown = if dropped.is_empty() { late } else { dropped };
    shown
        .iter()
        .take(16)
        .fold(verdict, |v, row| {
            let (all, lost, late) = (row.processed, row.dropped, row.squeezed);
            let text = format!("CPU {}: {all} processed, {lost} dropped, {late} squeezed", row.cpu);
            v.evidence(SOURCE, text)
        })
        .fix("sysctl -w net.core.netdev_max_backlog=10000 net.core.netdev_budget=600   # and spread the queues over more housekeeping CPUs")
}
