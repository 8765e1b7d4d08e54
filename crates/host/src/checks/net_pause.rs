use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.pause",
    cause: Cause::Network,
    about: "No other host can stop this one from sending",
    why: "With flow control a switch whose buffers run full sends pause frames, and the card stops \
          sending everything, whoever is to blame for the congestion: one slow receiver holds up \
          the orders to all others. One frame can ask for 65,535 times 512 bit times: 3.4 ms at \
          10 Gbit/s. Without it the switch drops a packet of the guilty flow. Where auto-negotiation \
          is on, the driver reports what was asked for, and the other end may have refused. \
          Lossless networks (RoCE, FCoE) need per-priority flow control, which this is not.",
    cost: Cost {
        us: 10.0,
        text: "up to 3.4 ms at 10 Gbit/s per pause frame, while the network is congested; ranked at a tenth of 100 µs, for it mostly is not",
        origin: "IEEE 802.3 annex 31B for the limit; judgement for the typical case",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let answers = match interfaces::offered(facts, "flow control", |e| e.rx_pause) {
        Ok(answers) => answers,
        Err(verdict) => return verdict,
    };
    let obeys: Vec<_> = answers.iter().filter(|(_, on)| *on).map(|(nic, _)| *nic).collect();
    let verdict = match obeys.is_empty() {
        true => Verdict::pass("no pause frame stops this host from sending"),
        false => Verdict::warn(format!(
            "pause frames stop {} from sending",
            interfaces::names(obeys.clone())
        )),
    };
    let commands: Vec<String> = obeys
        .iter()
        .map(|nic| format!("ethtool -A {} autoneg off rx off tx off", nic.name))
        .collect();
    answers
        .iter()
        .fold(verdict, |verdict, (nic, on)| {
            let state = if *on { "rx on" } else { "rx off" };
            verdict.evidence(format!("ethtool -a {}", nic.name), state)
        })
        .fix(commands.join("; "))
}
