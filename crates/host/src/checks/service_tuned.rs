use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::{self, Daemons};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.tuned",
    cause: Cause::Scheduler,
    about: "tuned does not undo what is tuned by hand",
    why: "tuned writes governors, sysctls, IRQ affinities and more when it starts, when its profile \
          is changed and when devices come and go; with dynamic_tuning (on in Debian's \
          tuned-main.conf) some values also follow the load every ten seconds. What was set by \
          hand before is gone, and it keeps what it changed in memory only, so that after a crash \
          nobody knows the old values. Profiles made for isolation (cpu-partitioning…, realtime…) \
          are no fault: then tuned is the one place to change. Only the profile's name is read; \
          what it set is judged by the other checks.",
    cost: Cost {
        us: 50.0,
        text: "whatever the undone settings cost: 10–500 µs",
        origin: "article on isolation, daemons to kill",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const PROFILE: &str = "/etc/tuned/active_profile";
    let daemons = Daemons::of(facts, &["tuned.service"]);
    let profile = match daemons.running.is_empty() {
        true => None,
        false => facts.host().line(PROFILE).ok(),
    };
    let isolates =
        |name: &str| name.starts_with("cpu-partitioning") || name.starts_with("realtime");
    match profile {
        Some(name) if name.split_whitespace().any(isolates) => {
            let verdict =
                Verdict::pass(format!("tuned runs the profile {name}, made for isolation"));
            daemons::evidence(verdict, &daemons.running).evidence(PROFILE, name)
        }
        Some(name) => daemons
            .unwanted(scope, "tuned does not run", |_| {
                Verdict::warn(format!("tuned runs the profile {name} and may undo other settings"))
            })
            .evidence(PROFILE, name),
        None => daemons.unwanted(scope, "tuned does not run", |_| {
            Verdict::warn("tuned runs and may undo other settings")
        }),
    }
}
