use quietcore_facts::Facts;
use quietcore_facts::nics::Nic;
use quietcore_measure::{Cause, Reading};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.runtime-pm",
    cause: Cause::Network,
    about: "Network cards are not powered down at run time",
    why: "With power/control at `auto` the kernel may put a card into a sleep state (D3) when its \
          driver calls it idle. Most drivers do so only while the link is down, so it is the link \
          that comes back late; some (and USB cards) sleep between packets. powertop and TLP set \
          `auto` for everything. It is a warning, as the driver decides.",
    cost: Cost {
        us: 100.0,
        text: "10 ms and more to leave D3, where the driver enters it; ranked at a hundredth, for an interface in use stays awake",
        origin: "PCI Power Management Specification: 10 ms recovery from D3hot",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let nics = match interfaces::in_use(facts) {
        Ok(nics) => nics,
        Err(verdict) => return verdict,
    };
    if let Some(nic) = nics.iter().find(|n| matches!(n.power_control, Reading::Failed(_))) {
        return Verdict::unread(&nic.power_control);
    }
    let states: Vec<(&Nic, &str)> =
        nics.iter().filter_map(|nic| Some((nic, nic.power_control.value()?.as_str()))).collect();
    if states.is_empty() {
        return Verdict::not_applicable("no card has a power state of its own");
    }
    let auto: Vec<&Nic> =
        states.iter().filter(|(_, state)| *state == "auto").map(|(nic, _)| *nic).collect();
    let verdict = match auto.is_empty() {
        true => Verdict::pass("network cards stay powered"),
        false => Verdict::warn(format!("{} may be powered down", interfaces::names(auto.clone()))),
    };
    let file = |nic: &Nic| format!("{}/power/control", nic.bus());
    let commands: Vec<String> = auto.iter().map(|nic| format!("echo on > {}", file(nic))).collect();
    states
        .iter()
        .fold(verdict, |verdict, (nic, state)| verdict.evidence(file(nic), state))
        .fix(commands.join("; "))
}
