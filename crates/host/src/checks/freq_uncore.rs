use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "freq.uncore",
    cause: Cause::Frequency,
    about: "The mesh and the last-level cache keep their frequency",
    why: "Intel servers scale the frequency of the uncore (mesh, last-level cache, memory \
          controller) by load, apart from the cores. One spinning thread is little load: the mesh \
          slows down and every miss of the inner caches takes longer. The intel_uncore_frequency \
          driver shows the range, by package and die, or by fabric cluster (`uncore00`) where the \
          processor tells by TPMI (Linux 6.5); equal ends pin it.",
    cost: Cost {
        us: 0.1,
        text: "tens of ns per cache miss, all the time",
        origin: "kernel: admin-guide/pm/intel_uncore_frequency_scaling; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const FOLDER: &str = "/sys/devices/system/cpu/intel_uncore_frequency";
    let host = facts.host();
    let names = match host.list(FOLDER) {
        Ok(names) => names,
        Err(error) => return Verdict::unanswered(&error),
    };
    let mut verdict = None;
    for name in names.iter().filter(|name| is_range(name)) {
        let khz = |file: &str| host.number(&format!("{FOLDER}/{name}/{file}"));
        let (min, max) = match (khz("min_freq_khz"), khz("max_freq_khz")) {
            (Ok(min), Ok(max)) => (min, max),
            (Err(error), _) | (_, Err(error)) => return Verdict::unknown(error.to_string()),
        };
        let value = format!("{} to {} MHz", min / 1000, max / 1000);
        if min < max {
            return Verdict::warn(format!("the uncore of {name} may run at {value}"))
                .evidence(format!("{FOLDER}/{name}"), value)
                .fix(format!(
                    "for u in {FOLDER}/package_* {FOLDER}/uncore[0-9]*; do [ -e $u/min_freq_khz ] || continue; cat $u/max_freq_khz > \
                     $u/min_freq_khz; done"
                ));
        }
        verdict = Some(
            Verdict::pass("the uncore's frequency is fixed")
                .evidence(format!("{FOLDER}/{name}"), value),
        );
    }
    verdict.unwrap_or_else(|| Verdict::not_applicable("no uncore frequency is offered here"))
}

/// `package_00_die_00`, or `uncore00` of a fabric cluster.
fn is_range(name: &str) -> bool {
    name.starts_with("package_") || name.starts_with("uncore")
}
