use quietcore_facts::Facts;
use quietcore_facts::frequency::Policy;
use quietcore_measure::{Cause, Reading};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "freq.limit",
    cause: Cause::Frequency,
    about: "Nobody caps the frequency below the rated one",
    why: "scaling_max_freq (a tuning daemon, a forgotten test) and bios_limit (the firmware: a \
          power cap, a missing power supply, a server in \"efficiency\" mode) cap the frequency \
          under any governor. A cap at the rated frequency only takes turbo away and is fine; one \
          below it makes everything slower all the time. The rated frequency is base_frequency, \
          CPPC's nominal_freq or CPUID leaf 0x16; without any of them the hardware's maximum \
          stands in, which counts turbo in.",
    cost: Cost {
        us: 20.0,
        text: "all work takes longer, in proportion",
        origin: "article on determinism, failure 4 (3.5 to 1.2 GHz tripled the latency)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let cpus = scope.judged(facts);
    let policies: Vec<&Policy> = facts.frequency().of_any(&cpus).collect();
    if policies.is_empty() {
        let none = "no frequency driver: there is no cap to see";
        return Verdict::unread(&facts.frequency().without(none));
    }
    let capped: Vec<_> =
        policies.iter().filter_map(|policy| Some((*policy, cap(policy)?))).collect();
    let mhz = |khz: i64| khz / 1000;
    let Some((policy, cap)) = capped.first() else {
        let rated = |policy: &&Policy| {
            policy.base.value().is_some() || policy.hardware_max_khz.value().is_some()
        };
        if !policies.iter().all(rated) {
            return Verdict::unknown("neither a rated nor a maximum frequency could be read");
        }
        if let Some(policy) =
            policies.iter().find(|policy| matches!(policy.bios_limit_khz, Reading::Failed(_)))
        {
            return Verdict::unknown(policy.bios_limit_khz.why());
        }
        return match policies.iter().all(|policy| policy.max_khz.value().is_some()) {
            true => Verdict::pass(format!("nothing caps CPUs {cpus} below their rated frequency"))
                .evidence(
                    "cpufreq/scaling_max_freq",
                    format!(
                        "{} MHz",
                        mhz(policies[0].max_khz.value().copied().unwrap_or_default())
                    ),
                ),
            false => Verdict::unknown("scaling_max_freq could not be read"),
        };
    };
    let title = format!(
        "{} caps CPUs {} at {} MHz, {} are {}",
        cap.by,
        policy.cpus,
        mhz(cap.khz),
        mhz(cap.rated),
        cap.rated_by
    );
    let verdict = match cap.proven {
        true => Verdict::fail_if(scope.is_declared(), title),
        false => Verdict::warn(title),
    };
    verdict
        .evidence(format!("cpufreq/{}/{}", policy.name, cap.by), format!("{} kHz", cap.khz))
        .evidence(cap.rated_by, format!("{} kHz", cap.rated))
        .fix(match cap.by {
            "bios_limit" => {
                "lift the cap in the firmware or the BMC (power profile, power \
                 supplies), then reboot"
            }
            _ => {
                "for p in /sys/devices/system/cpu/cpufreq/policy*; do cat $p/cpuinfo_max_freq > \
                 $p/scaling_max_freq; done"
            }
        })
}

struct Cap {
    by: &'static str,
    khz: i64,
    rated: i64,
    rated_by: &'static str,
    /// Whether the rated frequency is known, rather than the highest turbo.
    proven: bool,
}

fn cap(policy: &Policy) -> Option<Cap> {
    let (rated, rated_by, proven) = match policy.base.value() {
        Some(base) => (base.khz, base.source, true),
        None => (*policy.hardware_max_khz.value()?, "cpuinfo_max_freq", false),
    };
    // Frequencies are offered in steps of 100 MHz; what is within half a step is the same.
    let below = |khz: &&i64| rated.saturating_sub(**khz) > 50_000;
    let by_firmware = policy.bios_limit_khz.value().filter(below).map(|khz| ("bios_limit", *khz));
    let by_setting = policy.max_khz.value().filter(below).map(|khz| ("scaling_max_freq", *khz));
    let (by, khz) = by_firmware.or(by_setting)?;
    Some(Cap { by, khz, rated, rated_by, proven })
}
