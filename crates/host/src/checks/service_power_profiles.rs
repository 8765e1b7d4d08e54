use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::Daemons;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.power-profiles",
    cause: Cause::Frequency,
    about: "power-profiles-daemon does not choose the CPUs' power",
    why: "power-profiles-daemon comes with desktops and sets the energy preference and the \
          firmware's power profile for all CPUs, whenever a user, a program or the battery asks \
          for another one. A governor or preference set by hand lasts until then.",
    cost: Cost {
        us: 50.0,
        text: "10–100 µs until the clock is up again, after each pause",
        origin: "judgement: ramp-up of a preference for saving power",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let daemons = Daemons::of(facts, &["power-profiles-daemon.service"]);
    daemons.unwanted(scope, "power-profiles-daemon does not run", |_| {
        Verdict::warn("power-profiles-daemon may change the CPUs' power at any time")
    })
}
