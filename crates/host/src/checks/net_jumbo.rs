use quietcore_facts::Facts;
use quietcore_facts::nics::Nic;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.jumbo",
    cause: Cause::Network,
    about: "On a network known to carry large packets, they are used",
    why: "Amazon's network carries 9,001 bytes between instances of one region and 1,500 to \
          everywhere else; path MTU discovery finds out which. An interface of the driver ena that \
          is left at 1,500 sends an answer of 500 kB in 400 packets instead of 88. Whether any \
          other network carries more than 1,500 bytes cannot be read off a host, so no other \
          driver is judged. Where ICMP `fragmentation needed` is filtered, large packets vanish: \
          tracepath shows what a path carries. Much of what jumbo frames gain on short transfers \
          is slow start, which a route's initcwnd gains as well.",
    cost: Cost {
        us: 5.0,
        text: "about 500 µs for 500 kB between availability zones; nothing for small messages, so ranked at a hundredth",
        origin: "article on AWS, benchmark results (handshake and slow start are in the figure)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// What Amazon's network carries within a region.
const AMAZON: i64 = 9001;

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let nics = match interfaces::in_use(facts) {
        Ok(nics) => nics,
        Err(verdict) => return verdict,
    };
    let amazon: Vec<&Nic> = nics.iter().filter(|nic| nic.driver() == "ena").collect();
    if amazon.is_empty() {
        let drivers: Vec<&str> = nics.iter().map(Nic::driver).collect();
        return Verdict::not_applicable(format!(
            "what the network behind {} carries is not known here: tracepath shows it",
            drivers.join(", ")
        ));
    }
    if let Some(nic) = amazon.iter().find(|nic| nic.mtu.is_none()) {
        return Verdict::unknown(format!("the MTU of {} could not be read", nic.name));
    }
    let small: Vec<&Nic> = amazon.iter().filter(|n| n.mtu < Some(AMAZON)).copied().collect();
    let verdict = match small.is_empty() {
        true => Verdict::pass("packets are as large as the network carries"),
        false => Verdict::warn(format!(
            "{} sends smaller packets than the network carries",
            interfaces::names(small.clone())
        )),
    };
    let commands: Vec<String> =
        small.iter().map(|nic| format!("ip link set dev {} mtu {AMAZON}", nic.name)).collect();
    amazon
        .iter()
        .fold(verdict, |verdict, nic| {
            let mtu = nic.mtu.unwrap_or_default();
            verdict.evidence(format!("/sys/class/net/{}/mtu", nic.name), mtu)
        })
        .fix(format!(
            "{}   # and in the network's configuration, for this name",
            commands.join("; ")
        ))
}
