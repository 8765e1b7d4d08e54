use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "thermal.throttling-now",
    cause: Cause::Frequency,
    about: "No CPU is being slowed down for its heat",
    why: "The throttle counters grew while they were watched: the machine is too hot for its load \
          at this moment. Nothing else in this report is worth measuring before that ends.",
    cost: Cost {
        us: 275.0,
        text: "50–500 µs per event while it lasts, clock cut by 50–80 %",
        origin: "article on determinism, thermal throttling",
    },
    kind: Kind::Probe,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let cpus = scope.judged(facts);
    let grown = |(cpu, count): &(usize, u64)| {
        let (_, before) = probe.first.throttles.iter().find(|(c, _)| c == cpu)?;
        cpus.contains(*cpu).then(|| (*cpu, count.saturating_sub(*before)))
    };
    let grown: Vec<(usize, u64)> = probe.second.throttles.iter().filter_map(grown).collect();
    if grown.is_empty() {
        return Verdict::unknown(
            "no throttle counters here (a guest, or a CPU that does not keep \
             them)",
        );
    }
    match grown.iter().max_by_key(|(_, times)| *times).filter(|(_, times)| *times > 0) {
        Some((cpu, times)) => Verdict::fail(format!(
            "CPU {cpu} is being slowed down for its heat, \
             {times} times in {}",
            probe.took()
        ))
        .evidence("thermal_throttle/*_throttle_count, grown", times)
        .fix(
            "take load away and look after cooling: fans, air flow, the firmware's fan \
             profile",
        ),
        None if grown.len() < cpus.len() => {
            Verdict::unknown("the throttle counters of some CPUs could not be read twice")
        }
        None => Verdict::pass(format!("no CPU of {cpus} was slowed down in {}", probe.took())),
    }
}
