use quietcore_facts::Facts;
use quietcore_facts::nics::Nic;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.rings",
    cause: Cause::Network,
    about: "No card lost packets for want of a larger receive ring",
    why: "A ring holds what arrives while its CPU is busy. One that is too small loses bursts, and \
          a lost TCP segment costs a retransmission. Larger than needed is no better: its buffers \
          are used in turn, so a ring of 4,096 does not fit the part of the cache that devices \
          write to. So only a ring that is below its maximum on a card that did lose packets is \
          called a fault. The losses are those since the driver was loaded \
          (rx_missed_errors, rx_fifo_errors, rx_over_errors).",
    cost: Cost {
        us: 100.0,
        text: "a retransmission for each loss: a round trip, or 200 ms at the end of a burst; ranked at a tenth of 1 ms, for it takes a burst",
        origin: "TCP's smallest retransmission time-out in Linux, 200 ms; judgement for the typical case",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let answers = match interfaces::offered(facts, "descriptor rings", |e| e.rings) {
        Ok(answers) => answers,
        Err(verdict) => return verdict,
    };
    if let Some((nic, _)) = answers.iter().find(|(nic, _)| nic.received.value().is_none()) {
        return Verdict::unknown(nic.received.why());
    }
    let missed = |nic: &Nic| nic.received.value().map_or(0, |counts| counts.missed);
    let small: Vec<_> =
        answers.iter().filter(|(nic, rings)| missed(nic) > 0 && rings.rx < rings.rx_max).collect();
    let verdict = match small.is_empty() {
        true => Verdict::pass("no card lost packets for want of a larger receive ring"),
        false => {
            let names = interfaces::names(small.iter().map(|(nic, _)| *nic));
            Verdict::fail_if(
                scope.is_declared(),
                format!("{names} lost packets with a receive ring below its maximum"),
            )
        }
    };
    let commands: Vec<String> = small
        .iter()
        .map(|(nic, rings)| {
            let twice = rings.rx.saturating_mul(2).min(rings.rx_max);
            format!("ethtool -G {} rx {twice}", nic.name)
        })
        .collect();
    answers
        .iter()
        .fold(verdict, |verdict, (nic, rings)| {
            verdict.evidence(
                format!("ethtool -g {}", nic.name),
                format!("rx {} of {}, {} lost", rings.rx, rings.rx_max, missed(nic)),
            )
        })
        .fix(commands.join("; "))
}
