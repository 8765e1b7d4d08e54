use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cstate.governor",
    cause: Cause::CState,
    about: "The idle governor suits the host",
    why: "The governor picks the state for each idle period. menu and teo predict how long it \
          will last; ladder was made for kernels with a steady tick and climbs state by state, \
          into a deep one shortly before work comes and out of it too late. haltpoll is made for \
          guests; how long it polls is the business of virt.halt-poll.",
    cost: Cost {
        us: 30.0,
        text: "tens of µs per wake-up: a wrongly deep state",
        origin: "kernel: admin-guide/pm/cpuidle; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/devices/system/cpu/cpuidle/current_governor";
    let idle = facts.idle();
    if idle.states.is_empty() {
        return Verdict::not_applicable("there are no idle states to choose from");
    }
    let Some(governor) = idle.governor.value() else { return Verdict::unread(&idle.governor) };
    match governor.as_str() {
        "ladder" => Verdict::warn("ladder chooses the idle states, one step at a time")
            .evidence(SOURCE, governor)
            .fix(format!(
                "echo menu > {SOURCE}   # read-only before Linux 5.7: cpuidle.governor=menu on the boot line"
            )),
        "" => Verdict::unknown(format!("{SOURCE} is empty")),
        _ => {
            Verdict::pass(format!("{governor} chooses the idle states")).evidence(SOURCE, governor)
        }
    }
}
