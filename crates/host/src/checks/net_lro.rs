use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.lro",
    cause: Cause::Network,
    about: "Cards do not hold packets back to merge them",
    why: "Large receive offload merges the packets of a TCP connection in the card: the first one \
          waits for those behind it, until a timer of the card ends that. It also hides the \
          arrival times of the merged ones. Generic receive offload in the kernel, which merges \
          only what has arrived already, does the same for throughput without the wait.",
    cost: Cost {
        us: 20.0,
        text: "the card's merge timer, some µs to some tens of µs, for the last packet of a burst",
        origin: "judgement: vendors do not publish the timers",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let answers = match interfaces::offered(facts, "large receive offload", |e| e.lro) {
        Ok(answers) => answers,
        Err(verdict) => return verdict,
    };
    let on: Vec<_> = answers.iter().filter(|(_, on)| *on).map(|(nic, _)| *nic).collect();
    let names = interfaces::names(on.iter().copied());
    let verdict = match on.is_empty() {
        true => Verdict::pass("no card holds packets back to merge them"),
        false => Verdict::fail_if(
            scope.is_declared(),
            format!("{names} holds packets back to merge them"),
        ),
    };
    let commands: Vec<String> =
        on.iter().map(|nic| format!("ethtool -K {} lro off", nic.name)).collect();
    answers
        .iter()
        .fold(verdict, |verdict, (nic, on)| {
            let state = if *on { "on" } else { "off" };
            verdict.evidence(format!("ethtool -k {} large-receive-offload", nic.name), state)
        })
        .fix(commands.join("; "))
}
