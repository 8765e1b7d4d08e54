use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "smi.rising",
    cause: Cause::Smi,
    about: "Firmware takes no CPU away now",
    why: "MSR 0x34 grew during the probe: the firmware stopped the CPUs in that time, for 100 to \
          300 µs each. Spikes of that size that match no event of the kernel are these. A probe \
          without one proves only its own length; many machines raise one every few minutes.",
    cost: Cost {
        us: 200.0,
        text: "100–300 µs each, on all CPUs at once",
        origin: "article on isolation, failure 5",
    },
    kind: Kind::Probe,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let before = |cpu: usize| probe.first.smi.iter().find(|(c, _)| *c == cpu).map(|(_, n)| *n);
    let grown = |(cpu, count): &(usize, u64)| Some((*cpu, count.saturating_sub(before(*cpu)?)));
    let grown: Vec<(usize, u64)> = probe.second.smi.iter().filter_map(grown).collect();
    let Some((cpu, most)) = grown.iter().max_by_key(|(_, times)| *times) else {
        return Verdict::unknown("SMIs cannot be counted here (see smi.count)");
    };
    match most {
        0 => Verdict::pass(format!("no SMI in {}", probe.took())).evidence("MSR 0x34, grown", 0),
        _ => Verdict::fail_if(scope.is_declared(), format!("{most} SMIs in {}", probe.took()))
            .evidence(format!("MSR 0x34 of CPU {cpu}, grown"), most)
            .fix(
                "in the firmware's setup: maximum-performance power profile, no USB legacy \
                 support, no correctable-error SMIs (vendor's low-latency guide)",
            ),
    }
}
