use quietcore_facts::{Facts, Softnet};
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.softnet-growth",
    cause: Cause::Network,
    about: "No CPU falls behind with received packets now",
    why: "The counters of /proc/net/softnet_stat reach back to boot; read twice, they tell whether \
          packets are dropped or left waiting under the load of this moment. Under no load they \
          prove nothing, so a probe belongs into trading hours or a load test.",
    cost: Cost {
        us: 1000.0,
        text: "a squeeze delays the packets behind it by up to a scheduler's slice of some ms; a drop costs a retransmission",
        origin: "net/core/dev.c for the mechanism; judgement for the size",
    },
    kind: Kind::Probe,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/net/softnet_stat";
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let before = Softnet::parse(&probe.first.softnet, facts);
    let added = Softnet::parse(&probe.second.softnet, facts).since(&before);
    if added.is_empty() {
        return Verdict::unknown(format!("{SOURCE} could not be read twice"));
    }
    let sum = |of: fn(&quietcore_facts::softnet::Row) -> u64| {
        added.iter().fold(0u64, |sum, row| sum.saturating_add(of(row)))
    };
    let (all, dropped, squeezed) = (sum(|r| r.processed), sum(|r| r.dropped), sum(|r| r.squeezed));
    let took = probe.took();
    let verdict = match (dropped, squeezed) {
        (1.., _) => Verdict::fail_if(
            scope.is_declared(),
            format!("{dropped} received packets were dropped in {took}"),
        ),
        (_, 1..) => {
            Verdict::warn(format!("CPUs ran out of time for packets {squeezed} times in {took}"))
        }
        _ if all == 0 => {
            return Verdict::unknown(format!(
                "no packet was received in {took}: nothing is proven"
            ));
        }
        _ => Verdict::pass(format!("CPUs kept up with {all} received packets in {took}")),
    };
    let bad = added.iter().filter(|row| row.dropped > 0 || row.squeezed > 0);
    bad.take(16)
        .fold(verdict.evidence(SOURCE, format!("+{all} processed")), |v, row| {
            let (lost, late) = (row.dropped, row.squeezed);
            v.evidence(SOURCE, format!("CPU {}: +{lost} dropped, +{late} squeezed", row.cpu))
        })
        .fix("sysctl -w net.core.netdev_max_backlog=10000 net.core.netdev_budget=600   # and spread the queues over more housekeeping CPUs")
}
