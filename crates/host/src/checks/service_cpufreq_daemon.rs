use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::Daemons;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.cpufreq-daemon",
    cause: Cause::Frequency,
    about: "No daemon or boot script changes the clock of the CPUs",
    why: "cpuspeed, cpufreqd and auto-cpufreq change governor and frequency while they run; \
          cpufrequtils, ondemand and TLP set them once after boot, often later than the script \
          that set `performance`. Those that end by themselves show as active (exited) and are \
          reported as well: they did their work. The governor in effect is judged on its own.",
    cost: Cost {
        us: 50.0,
        text: "10–100 µs per change of frequency, and slower code until the next",
        origin: "article on isolation, daemons to kill; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const DAEMONS: [&str; 3] = ["cpuspeed.service", "cpufreqd.service", "auto-cpufreq.service"];
const SCRIPTS: [&str; 3] = ["cpufrequtils.service", "ondemand.service", "tlp.service"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let all: Vec<&str> = DAEMONS.into_iter().chain(SCRIPTS).collect();
    let daemons = Daemons::of(facts, &all);
    let lasting = daemons.running.iter().any(|service| DAEMONS.contains(&service.unit));
    daemons.unwanted(scope, "nothing changes the clock of the CPUs", |names| match lasting {
        true => Verdict::fail_if(
            scope.is_declared(),
            format!("{names} changes the clock of the CPUs while they work"),
        ),
        false => Verdict::warn(format!("{names} set the clock of the CPUs after boot")),
    })
}
