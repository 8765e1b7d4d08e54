use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::Daemons;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.thermald",
    cause: Cause::Frequency,
    about: "thermald does not slow the CPUs down",
    why: "thermald lowers power limits and frequencies, and injects idle time (intel_powerclamp), \
          below the temperature at which the processor would throttle by itself. In a rack whose \
          cooling is watched it takes what was paid for; on a laptop, and where a fan may fail \
          unseen, it is a protection, and the processor's own limit stays in any case.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per throttling; injected idle time takes 6 ms at once",
        origin: "article on determinism, taxonomy; Documentation/admin-guide/thermal/intel_powerclamp.rst",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    Daemons::of(facts, &["thermald.service"]).unwanted(scope, "thermald does not run", |_| {
        Verdict::warn("thermald may slow the CPUs down before they are too hot")
    })
}
