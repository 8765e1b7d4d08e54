use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.mtu",
    cause: Cause::Network,
    about: "Interfaces built upon others fit the packet sizes beneath",
    why: "A bridge, bond or VLAN that believes in larger packets than a port beneath it can carry \
          loses the large ones there without a word; TCP finds out by time-outs. The members of a \
          bond or bridge must agree with each other, else it depends on the member whether a \
          packet gets through. The packet sizes (MTU) are those in effect.",
    cost: Cost {
        us: 2000.0,
        text: "a retransmission time-out, 200 ms and more, for each packet that is too large; ranked at a hundredth, for most are small",
        origin: "TCP's smallest retransmission time-out in Linux, 200 ms",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let nics = facts.nics();
    if nics.names.value().is_none() {
        return Verdict::unread(&nics.names);
    }
    if let Some(why) = &nics.unread {
        return Verdict::unknown(why);
    }
    if nics.stacks.is_empty() {
        return Verdict::not_applicable("no interface is built upon another");
    }
    let mut bad = Vec::new();
    let mut fixes = Vec::new();
    let mut evidence = Vec::new();
    for stack in &nics.stacks {
        let Some(mtu) = stack.mtu else {
            return Verdict::unknown(format!("the MTU of {} could not be read", stack.name));
        };
        evidence.push((stack.name.clone(), mtu));
        let smallest = stack.lower.iter().filter_map(|(_, size)| *size).min().unwrap_or(mtu);
        if smallest < mtu {
            fixes.push(format!("ip link set dev {} mtu {smallest}", stack.name));
        }
        for (lower, size) in &stack.lower {
            match size {
                Some(size) if *size < mtu => {
                    bad.push(format!("{} sends {mtu} bytes, {lower} carries {size}", stack.name));
                    evidence.push((lower.clone(), *size));
                }
                Some(size) => evidence.push((lower.clone(), *size)),
                None => return Verdict::unknown(format!("the MTU of {lower} could not be read")),
            }
        }
    }
    let verdict = match bad.is_empty() {
        true => Verdict::pass("interfaces fit those they are built upon"),
        false => Verdict::fail_if(scope.is_declared(), bad.join("; ")),
    };
    evidence.sort();
    evidence.dedup();
    evidence
        .iter()
        .fold(verdict, |v, (name, mtu)| v.evidence(format!("/sys/class/net/{name}/mtu"), mtu))
        .fix(fixes.join("; "))
}
