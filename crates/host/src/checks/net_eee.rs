use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.eee",
    cause: Cause::Network,
    about: "The network link does not sleep between packets",
    why: "With Energy-Efficient Ethernet (IEEE 802.3az) both ends let the link sleep when nothing \
          is sent and wake it for the next packet, which waits that long: a quiet market is \
          exactly when it sleeps. It needs both ends, so what counts is whether it is active now \
          (ethtool --show-eee), not whether it is allowed.",
    cost: Cost {
        us: 17.0,
        text: "about 17 µs to wake a 1000BASE-T link, 30 µs for 100BASE-TX, 7 µs for 10GBASE-T",
        origin: "IEEE 802.3az wake times (Tw_sys); vendors' switch manuals quote 17 and 30 µs",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    // A recording of an older version tells only whether it is allowed.
    let states = |e: &quietcore_sys::host::Ethtool| Some((e.eee?, e.eee_active.unwrap_or(e.eee?)));
    let answers = match interfaces::offered(facts, "Energy-Efficient Ethernet", states) {
        Ok(answers) => answers,
        Err(verdict) => return verdict,
    };
    let asleep: Vec<_> =
        answers.iter().filter(|(_, (_, active))| *active).map(|(nic, _)| *nic).collect();
    let verdict = match asleep.is_empty() {
        true => Verdict::pass("no link sleeps between packets"),
        false => Verdict::fail_if(
            scope.is_declared(),
            format!("the link of {} sleeps between packets", interfaces::names(asleep.clone())),
        ),
    };
    let commands: Vec<String> =
        asleep.iter().map(|nic| format!("ethtool --set-eee {} eee off", nic.name)).collect();
    answers
        .iter()
        .fold(verdict, |verdict, (nic, (allowed, active))| {
            let word = |is| if is { "yes" } else { "no" };
            verdict.evidence(
                format!("ethtool --show-eee {}", nic.name),
                format!("allowed {}, active {}", word(*allowed), word(*active)),
            )
        })
        .fix(commands.join("; "))
}
