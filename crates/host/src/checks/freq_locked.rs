use quietcore_facts::Facts;
use quietcore_facts::frequency::Policy;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "freq.locked",
    cause: Cause::Frequency,
    about: "The frequency of latency CPUs cannot move",
    why: "A change of frequency stops the core while its clock settles, and a load that comes and \
          goes changes it all day. With scaling_min_freq equal to scaling_max_freq there is \
          nothing to change to. The performance governor alone pins acpi-cpufreq to its maximum \
          and asks intel_pstate for it, but leaves the range of the hardware's turbo open.",
    cost: Cost {
        us: 15.0,
        text: "10–20 µs per change of frequency on Skylake-class servers",
        origin: "article on determinism (lock CPU to fixed frequency); size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let cpus = scope.judged(facts);
    let policies: Vec<&Policy> = facts.frequency().of_any(&cpus).collect();
    if policies.is_empty() {
        let none = "no frequency driver: there is no range to close";
        return Verdict::unread(&facts.frequency().without(none));
    }
    let range = |policy: &Policy| Some((*policy.min_khz.value()?, *policy.max_khz.value()?));
    let Some(open) =
        policies.iter().map(|policy| Some((range(policy)?, *policy))).collect::<Option<Vec<_>>>()
    else {
        return Verdict::unknown("scaling_min_freq and scaling_max_freq could not be read");
    };
    let open: Vec<_> = open.into_iter().filter(|((min, max), _)| min < max).collect();
    let mhz = |khz: i64| khz / 1000;
    let Some(((min, max), first)) = open.first() else {
        let at = policies.first().and_then(|policy| range(policy)).map_or(0, |(_, max)| mhz(max));
        return Verdict::pass(format!("the frequency of CPUs {cpus} is fixed"))
            .evidence("cpufreq/scaling_min_freq and scaling_max_freq", format!("{at} MHz"));
    };
    Verdict::warn(format!("the frequency of {} of {} clocks may move", open.len(), policies.len()))
        .evidence(
            format!("cpufreq of CPUs {}", first.cpus),
            format!("{} to {} MHz", mhz(*min), mhz(*max)),
        )
        .fix(
            "for p in /sys/devices/system/cpu/cpufreq/policy*; do cat $p/scaling_max_freq > \
             $p/scaling_min_freq; done",
        )
}
