use quietcore_facts::Facts;
use quietcore_facts::nics::Nic;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.drops",
    cause: Cause::Network,
    about: "Network cards lose no received packets",
    why: "rx_missed_errors, rx_fifo_errors and rx_over_errors count packets that the card had to \
          throw away, because nobody emptied its ring or its memory in time: bursts, a CPU that \
          was busy or asleep, a bus in a power-saving state. rx_dropped counts packets that were \
          given up later, among them frames of protocols that nobody speaks here (LLDP, spanning \
          tree), which are harmless; so it only warns, and from one in 100,000 packets on. The \
          counts reach back to the loading of the driver.",
    cost: Cost {
        us: 100.0,
        text: "a retransmission for each loss: a round trip, or 200 ms at the end of a burst; a gap in a multicast feed; ranked at a tenth of 1 ms, for it may be over",
        origin: "TCP's smallest retransmission time-out in Linux, 200 ms; judgement for the typical case",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// One packet in so many may be dropped after the card without a warning.
const HARMLESS: u64 = 100_000;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let nics = match interfaces::in_use(facts) {
        Ok(nics) => nics,
        Err(verdict) => return verdict,
    };
    if let Some(nic) = nics.iter().find(|nic| nic.received.value().is_none()) {
        return Verdict::unknown(nic.received.why());
    }
    let counts = |nic: &Nic| nic.received.value().copied().unwrap_or_default();
    let missed: Vec<&Nic> = nics.iter().filter(|nic| counts(nic).missed > 0).collect();
    let dropping = |nic: &&Nic| counts(nic).dropped > counts(nic).packets / HARMLESS;
    let dropped: Vec<&Nic> = nics.iter().filter(dropping).collect();
    let verdict = match (missed.is_empty(), dropped.is_empty()) {
        (false, _) => Verdict::fail_if(
            scope.is_declared(),
            format!("{} had no room for received packets", interfaces::names(missed.clone())),
        ),
        (_, false) => Verdict::warn(format!(
            "received packets were dropped behind {}",
            interfaces::names(dropped.clone())
        )),
        _ => Verdict::pass("no card loses received packets"),
    };
    let first = missed.iter().chain(&dropped).next();
    let fix = first.map(|nic| {
        format!("ethtool -S {0} | grep -iE 'drop|miss|discard|no_buf'   # then a larger ring (ethtool -G {0} rx …) or a CPU of its own for the queue", nic.name)
    });
    nics.iter()
        .fold(verdict, |verdict, nic| {
            let r = counts(nic);
            verdict.evidence(
                format!("/sys/class/net/{}/statistics", nic.name),
                format!("{} received, {} missed, {} dropped", r.packets, r.missed, r.dropped),
            )
        })
        .fix(fix.unwrap_or_default())
}
